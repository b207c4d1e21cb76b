"""The tiny stand-in built for other machines by the whole pipeline, and run on their CPUs by an emulator."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import platform
import re
import shutil
import subprocess
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import AuditError
from cpuwheels.pipeline import test_environment
from cpuwheels.pipeline.context import open_context
from tiny_project import Tiny

if TYPE_CHECKING:
    from cpuwheels.config.matrix import Target
    from cpuwheels.verification.emulation.cpus import Cpu

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="the cross compilers run on x86-64 Linux"
    ),
]

USE = """
import json, sys
import numpy, torch
import vllm._C as chosen

ops = torch.ops._C
x = numpy.linspace(-3, 3, 231, dtype=numpy.float32).reshape(7, 33)
assert numpy.array_equal(ops.scale(torch.from_numpy(x), 2.5).numpy(), x * numpy.float32(2.5))
assert ops.numa_nodes() >= 1
assert ops.count_words("one two") == 2
try:
    ops.scale(torch.from_numpy(x).int(), 1.0)
except RuntimeError as error:
    assert "/usr/src/cpuwheels/vllm/csrc/cpu/ops.cpp" in str(error), error
else:
    raise SystemExit("no exception came through")
dot = None
if hasattr(ops, "bf16_dot"):
    a = numpy.arange(-16, 16, dtype=numpy.float32)
    b = numpy.arange(32, dtype=numpy.float32)
    assert ops.bf16_dot(torch.from_numpy(a).bfloat16(), torch.from_numpy(b).bfloat16()) == float(a @ b)
    dot = "right"
print(json.dumps([chosen.__isa__, sys.byteorder, dot]))
"""

COMMON = {"scale", "numa_nodes", "count_words"}

# BFDOT, which no CPU has that the NEON library is for.
SMUGGLED = """
#ifndef ARM_BF16_SUPPORT
__attribute__((target("arch=armv8.2-a+bf16"), visibility("default"))) void smuggled(float* x) {
  asm volatile("bfdot v0.4s, v1.8h, v2.8h" ::"r"(x) : "v0");
}
#endif
"""


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a target's wheel has to be.

    Attributes:
        target: Its id.
        elf: Machine and byte order of its files.
        libraries: Library → what it has beside the operators that all have.
        said: CPU → what `USE` says there.
    """

    target: str
    elf: tuple[str, bool]
    libraries: dict[str, set[str]]
    said: dict[str, list[str | None]]


EXPECTED = [
    Expected(
        "arm",
        ("EM_AARCH64", True),
        {"_C_BF16": {"bf16_dot"}, "_C_NEON": set()},
        {"max,pauth-impdef=on": ["_C_BF16", "little", "right"], "neoverse-n1": ["_C_NEON", "little", None]},
    ),
    Expected("s390x", ("EM_S390", False), {"_C_Z15": set()}, {"max": ["_C_Z15", "big", None]}),
]


@dataclasses.dataclass(frozen=True)
class Built:
    """A target's wheel.

    Attributes:
        wheel: Its path.
        folder: What it holds.
        target: What it is for.
        expected: What it has to be.
    """

    wheel: Path
    folder: Path
    target: Target
    expected: Expected

    def beside(self, name: str) -> dict[str, Any]:
        """Return what a file beside the wheel says."""
        found: dict[str, Any] = json.loads((self.wheel.parent / name).read_text())
        return found

    def libraries(self) -> dict[str, ELFFile]:
        """Return the files with machine code, by their path in the wheel."""
        files = (path for path in self.folder.rglob("*.so*") if path.is_file())
        return {str(path.relative_to(self.folder)): ELFFile(io.BytesIO(path.read_bytes())) for path in files}


@pytest.fixture(scope="module")
def cross(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The tiny project with a compiler cache: what two builds have in common is compiled once."""
    root = shutil.copytree(tiny.root, tmp_path_factory.mktemp("cross") / "project")
    with (root / "matrix.yaml").open("a") as stream:
        stream.write("compiler_cache: {x86_64: ccache-amd64}\n")
    return dataclasses.replace(tiny, root=root, dist=root.parent / "dist")


@pytest.fixture(scope="module", params=EXPECTED, ids=lambda expected: expected.target)
def built(cross: Tiny, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Built:
    wheel = cross.build("--toolchain", "debian", target=request.param.target)
    folder = tmp_path_factory.mktemp(request.param.target)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return Built(wheel, folder, load_matrix(cross.root).target(request.param.target), request.param)


def needed(elf: ELFFile) -> set[str]:
    """Return the libraries that a file names."""
    dynamic = elf.get_section_by_name(".dynamic")
    assert isinstance(dynamic, DynamicSection)
    return {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}


def test_every_file_is_for_the_other_machine(built: Built) -> None:
    libraries = built.libraries()
    modules = {"_C", "spinloop", *built.expected.libraries}
    assert {name for name in libraries if name.startswith("vllm/")} == {f"vllm/{name}.abi3.so" for name in modules}
    assert any(name.startswith("vllm.libs/libnuma-") for name in libraries)
    assert {(elf["e_machine"], elf.little_endian) for elf in libraries.values()} == {built.expected.elf}


def test_the_loader_is_told_of_torch(built: Built) -> None:
    """By PyTorch's names, though the torch that they were linked with has others."""
    libraries = built.libraries()
    for name in built.expected.libraries:
        named = {
            library for library in needed(libraries[f"vllm/{name}.abi3.so"]) if "torch" in library or "c10" in library
        }
        assert {"libtorch_cpu.so"} <= named <= {"libtorch.so", "libtorch_cpu.so", "libc10.so"}


def test_the_name_of_the_wheel_keeps_the_floor(built: Built) -> None:
    found = re.search(r"-cp38-abi3-manylinux_(\d+)_(\d+)_(.+)\.whl$", built.wheel.name)
    assert found is not None
    assert found[3] == built.target.machine
    floor = tuple(map(int, built.target.floor.split("_")[1:]))
    assert (int(found[1]), int(found[2])) <= floor


def test_the_manifest_lists_the_operators_of_each_library(built: Built) -> None:
    found = {
        library["name"]: {operator["name"].partition("::")[2] for operator in library["operators"]}
        for library in built.beside("operators.json")["libraries"]
    }
    assert found == {name: COMMON | more for name, more in built.expected.libraries.items()}


def test_the_record_tells_of_torch_and_of_the_emulated_cpus(built: Built) -> None:
    record = built.beside("record.json")
    assert record["alternates"] == [f"torch 2.14.1 from locks/{built.target.root}.yaml"]
    assert record["torch"]["version"] == "2.14.1"
    assert record["chooser_key"]
    assert record["tried"] == [
        {"cpu": cpu, "emulated": True, "libraries": [said[0]], "chosen": said[0]}
        for cpu, said in built.expected.said.items()
    ]
    sources = [Path(job["source"]).name for job in record["files"]]
    assert sources.count("tiny_dnnl.cpp") + len(record["kept_libraries"]) == 1  # compiled for both, or kept
    assert sources.count("ops.cpp") == len(built.expected.libraries)


def test_the_kernels_compute_on_each_emulated_cpu(built: Built, cross: Tiny, tmp_path: Path) -> None:
    paths = Paths(cross.root, cross.cache, tmp_path / "dist")
    this = open_context(paths, load_matrix(cross.root), built.target, BuildOptions(), Reporter(built.target.id))
    cpus = test_environment.emulated(this).environment(tmp_path / "venv")

    def said(cpu: Cpu) -> list[str | None]:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(built.folder)}
        done = subprocess.run([*cpu.python, "-c", USE], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        words: list[str | None] = json.loads(done.stdout)
        return words

    found = run_parallel([partial(said, cpu) for cpu in cpus], len(cpus))
    assert dict(zip([cpu.name for cpu in cpus], found, strict=True)) == built.expected.said


def test_two_configurations_share_what_both_use(built: Built) -> None:
    libraries = built.libraries()
    shared = [name.rpartition("/")[2] for name in libraries if "libcpuwheels_dnnl" in name]
    if len(built.expected.libraries) == 1:
        assert shared == []
        return
    assert len(shared) == 1
    assert all(shared[0] in needed(libraries[f"vllm/{name}.abi3.so"]) for name in built.expected.libraries)


def test_both_configurations_are_linked_with_the_onednn_that_was_kept(cross: Tiny, tmp_path: Path) -> None:
    here = dataclasses.replace(cross, dist=tmp_path / "dist")
    tree = here.changed_tree(tmp_path / "kept")
    wheels = []
    for text in ("", "// one more line\n"):
        kernel = tree / "csrc" / "cpu" / "ops.cpp"
        kernel.write_text(kernel.read_text() + text)
        wheels.append(here.build("--toolchain", "debian", "--source", tree, target="arm"))
        assert any("libcpuwheels_dnnl" in name for name in zipfile.ZipFile(wheels[-1]).namelist())
    logs = max((here.dist / "logs" / "arm").iterdir())
    said = [path.read_text() for path in (*logs.glob("compile.log"), *logs.glob("compile-*.log"))]
    assert len(said) == 2
    for text in said:
        assert "ops.cpp.o" in text
        assert "dnnl_common" not in text


def test_an_instruction_beyond_a_library_is_refused(cross: Tiny, tmp_path: Path) -> None:
    tree = shutil.copytree(cross.tree, tmp_path / "smuggled")
    with (tree / "csrc" / "cpu" / "helper.cpp").open("a") as stream:
        stream.write(SMUGGLED)
    here = dataclasses.replace(cross, dist=tmp_path / "dist")
    done = here.run("build", "arm", "--toolchain", "debian", "--source", tree)
    assert done.returncode == AuditError.exit_code, done.stderr
    assert "vllm/_C_NEON.abi3.so: " in done.stderr
    assert "bfdot" in done.stderr
    assert "(not in armv8.2-a+dotprod+fp16)" in done.stderr
    assert not list(here.dist.rglob("*.whl"))
