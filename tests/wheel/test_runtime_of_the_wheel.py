"""What the doctor of a server knows of vLLM, held against the source in the real wheel."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from elftools.elf.elffile import ELFFile
from uv import find_uv_bin

from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.process import run
from cpuwheels.doctor.runtime.kv_cache import BATCHED_TOKENS
from cpuwheels.doctor.runtime.package import OPERATORS, Package, read_package
from cpuwheels.doctor.runtime.reading import SEEN_BY_VLLM
from cpuwheels.fetch.uv import uv_environment
from cpuwheels.wheel.kernel_wheel import INTEL_OPENMP
from layout import ROOT
from runtime_cases import LATENT, NAMES, QWEN3, machine, report, variables

FOREIGN = {"ONEDNN_MAX_CPU_ISA"}
"""Not vLLM's."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel() -> Path:
    (found,) = (ROOT / "dist" / "x86" / load_matrix(ROOT).default_source).glob("*.whl")
    return found


@pytest.fixture(scope="module")
def package(wheel: Path) -> Package:
    return read_package(wheel)


def source(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"vllm/{name}").decode()


def test_every_variable_that_is_printed_is_read_by_this_version(wheel: Path, package: Package) -> None:
    known = source(wheel, "envs.py") + source(wheel, "utils/cpu_resource_utils.py")
    printed = set()
    for name in NAMES:
        if machine(name).architecture == "x86_64":
            for each in (package, package.model_copy(update={"sees_to_amx": False})):
                printed |= set(variables(report(name, each, QWEN3))) - FOREIGN
    assert len(printed) == 4
    assert [name for name in sorted(printed) if not re.search(rf'"{name}"', known)] == []


def test_the_libraries_are_asked_for_as_the_doctor_believes(wheel: Path) -> None:
    text = source(wheel, "platforms/cpu.py")
    found = re.findall(r"torch\.cpu\.(_is_avx512\w*)\(\):|import vllm\.(_C\w*)", text.partition("import_kernels")[2])
    assert ["".join(parts) for parts in found] == [
        "_is_avx512_supported",
        "_is_avx512_bf16_supported",
        "_C",
        "_C_AVX512",
        "_C_AVX2",
        "_C",
    ]


def test_operators_are_those_that_were_registered(wheel: Path, package: Package) -> None:
    manifest = json.loads((wheel.parent / "operators.json").read_text())
    for library in manifest["libraries"]:
        names = {operator["name"].removeprefix("_C::") for operator in library["operators"]}
        if not library["not_loaded"]:
            assert package.operators[library["name"]] == names & set(OPERATORS), library["name"]


def test_intels_openmp_has_every_function_that_the_modules_call(wheel: Path, tmp_path: Path) -> None:
    """One that it lacks would be found in libgomp, and two runtimes would compute."""
    with zipfile.ZipFile(wheel) as archive:
        needed = {
            name
            for module in archive.namelist()
            if module.endswith(".so")
            for name, defined in openmp_functions(io.BytesIO(archive.read(module)))
            if not defined
        }
        info = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        (line,) = re.findall(r"^Requires-Dist: (intel-openmp[^;\n]*)", archive.read(info).decode(), re.MULTILINE)
    command = [find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--prefix", tmp_path, line]
    run(command, log=tmp_path / "log", env=uv_environment())
    with (tmp_path / "lib" / INTEL_OPENMP).open("rb") as stream:
        had = {name for name, defined in openmp_functions(stream) if defined}
    assert "GOMP_parallel" in needed
    assert needed - had == set()


def openmp_functions(stream: IO[bytes]) -> Iterator[tuple[str, bool]]:
    """Yield the OpenMP functions that a library calls or has, and whether it has them."""
    for symbol in ELFFile(stream).get_section_by_name(".dynsym").iter_symbols():
        if symbol.name.startswith(("GOMP_", "omp_")):
            yield symbol.name, symbol["st_shndx"] != "SHN_UNDEF"


def test_numbers_are_upstreams(wheel: Path, package: Package) -> None:
    assert f"UsageContext.OPENAI_API_SERVER: {BATCHED_TOKENS} * world_size" in source(wheel, "engine/arg_utils.py")
    limits = source(wheel, "utils/cpu_resource_utils.py")
    assert all(f'"/{name}"' in limits for name in SEEN_BY_VLLM)
    platform = source(wheel, "platforms/cpu.py")
    assert "backend_classes, 128, vllm_config" in platform  # the preferred size of a block
    assert "cache_config.block_size = 16\n" in platform
    assert 'return "AuthenticAMD" in cpuinfo and "avx512" in cpuinfo' in source(wheel, "platforms/__init__.py")
    assert 128 in package.head_sizes
    latent = re.findall(r"return \[(\d+)\]", source(wheel, "v1/attention/backends/mla/cpu_mla.py"))
    assert str(LATENT.head_size) in latent
