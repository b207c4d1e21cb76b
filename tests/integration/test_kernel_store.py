"""What makes kernels anew, and what does not."""

from __future__ import annotations

import dataclasses
import json
import shutil
from html import unescape
from pathlib import Path

import pytest

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
