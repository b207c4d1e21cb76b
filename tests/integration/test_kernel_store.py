"""What makes kernels anew, and what does not."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from html import unescape
from pathlib import Path

import pytest

from cpuwheels.core.trust import Trust
from cpuwheels.pipeline.comparison.result import Comparison
from tiny_project import Tiny

pytestmark = pytest.mark.slow

NOTHING = "are in the store; nothing to compile"


def build(tiny: Tiny, tree: Path) -> tuple[str, dict]:
    """Build a tree; return what was said and the record."""
    done = tiny.run("build", "x86", "--source", tree)
    assert done.returncode == 0, done.stderr
    return done.stderr, json.loads((Path(done.stdout.strip()).parent / "record.json").read_text())


def check_comparison(here: Tiny, first: Path, third: Path) -> None:
    """Compare two real builds, and one with itself."""
    done = here.run("compare", first, third)
    assert done.returncode == 1, done.stderr
    found = Comparison.model_validate_json((third / "comparison.json").read_text())
    assert found.not_compared == {}
    assert "vllm/__init__.py" in {change.path for change in found.files}
    assert {change.name for change in found.inputs or ()} == {"vLLM"}
    assert (found.operators, found.flags) == ((), ())
    assert {binary.path for binary in found.binaries} >= {"vllm/_C.abi3.so", "vllm/_C_AVX2.abi3.so"}
    assert found.times is not None
    assert any("ops.cpp" in job.output and job.before and job.after for job in found.times.jobs)
    assert here.run("compare", first, first).returncode == 0


def test_only_what_the_compiler_reads_makes_kernels_anew(tiny: Tiny, tmp_path: Path) -> None:
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    tree = here.changed_tree(tmp_path / "reads")
    (tree / "csrc" / "attention").mkdir()
    (tree / "csrc" / "attention" / "old.cu").write_text("// for another device\n")
    said, first = build(here, tree)
    assert NOTHING not in said
    (output,) = (here.dist / "x86").glob("[!.]*")
    shutil.copytree(output, tmp_path / "first")

    (tree / "csrc" / "attention" / "old.cu").write_text("// for that device, changed\n")
    (tree / "csrc" / "attention" / "new.cu").write_text("// and one more\n")
    (tree / "vllm" / "__init__.py").write_text("changed = True\n")
    said, second = build(here, tree)
    assert NOTHING in said
    assert second["kernel_key"] == first["kernel_key"]
    assert second["wheel"]["sha256"] != first["wheel"]["sha256"]

    kernel = tree / "csrc" / "cpu" / "ops.cpp"
    text = kernel.read_text()
    kernel.write_text(text + "// one more line\n")
    said, third = build(here, tree)
    assert NOTHING not in said
    assert third["kernel_key"] != first["kernel_key"]
    check_comparison(here, tmp_path / "first", output)

    kernel.write_text(text)
    said, fourth = build(here, tree)
    assert NOTHING in said
    assert fourth["kernel_key"] == first["kernel_key"]


def makes_onednn(here: Tiny) -> bool:
    """Return whether the last build compiled and linked oneDNN, as its log tells; it has to have compiled anything."""
    text = max((here.dist / "logs" / "x86").glob("*/compile.log")).read_text()
    assert "ops.cpp.o" in text
    made = ["tiny_dnnl.cpp.o" in text, "Linking CXX shared library libcpuwheels_dnnl.so" in text]
    assert all(made) or not any(made)
    return all(made)


def test_onednn_is_linked_as_it_was_made(tiny: Tiny, tmp_path: Path) -> None:
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    tree = here.changed_tree(tmp_path / "library")
    with (tree / "CMakeLists.txt").open("a") as stream:
        stream.write(f"# {time.time_ns()}\n")  # nobody has built with these programs
    libraries = here.cache / Trust.LOCAL.value / "onednn-libraries"
    before = set(libraries.glob("*"))
    build(here, tree)
    made = set(libraries.glob("*")) - before
    assert makes_onednn(here)
    kernel = tree / "csrc" / "cpu" / "ops.cpp"
    kernel.write_text(f"{kernel.read_text()}// one more line\n")
    _, finished = build(here, tree)
    assert not makes_onednn(here)
    assert "dnnl_common" in finished["compilers"]["flags"]

    # The same wheel as from a build of its own.
    for entry in (*made, libraries.with_name("kernels") / finished["kernel_key"]):
        shutil.rmtree(entry)
    _, own = build(here, tree)
    assert makes_onednn(here)
    assert own["wheel"]["sha256"] == finished["wheel"]["sha256"]
    assert own["compilers"]["flags"] == finished["compilers"]["flags"]

    # What it calls decides about the library.
    helper = tree / "csrc" / "cpu" / "helper.cpp"
    helper.write_text(helper.read_text().replace("tiny_multiply(a, b)", "tiny_multiply(a, tiny_divide(b, 1.0f))"))
    said, more = build(here, tree)
    assert "calls other functions of oneDNN than those before it: making its own" in said
    assert more["wheel"]["sha256"] != own["wheel"]["sha256"]
    kernel.write_text(f"{kernel.read_text()}// and another\n")
    said, _ = build(here, tree)
    assert "calls other functions" not in said
    assert not makes_onednn(here)


def test_the_report_and_what_was_learned(tiny: Tiny, tiny_wheel: Path) -> None:
    page = (tiny_wheel.parent / "report.html").read_text()
    assert "csrc/cpu/ops.cpp" in page
    assert tiny_wheel.name in page
    flags = json.loads((tiny_wheel.parent / "record.json").read_text())["compilers"]["flags"]
    assert "-mavx2" in flags["_C_AVX2"]
    assert " ".join(flags["_C_AVX2"]) in unescape(page)
    trace = json.loads((tiny_wheel.parent / "trace.json").read_text())
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) >= 4
    memory = json.loads((tiny_wheel.parent / "record.json").read_text())["memory"]
    assert 0 < memory["peak"] < memory["room"] < memory["cap"]
    learned = (tiny.cache / "measured" / "x86.tsv").read_text()
    assert "CMakeFiles/_C.dir/csrc/cpu/ops.cpp.o" in learned
    assert "cmTC_" not in learned
