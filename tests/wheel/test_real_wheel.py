"""The wheel that the real build left in ``dist/`` held against upstream's own wheel of that version."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from cpuwheels.audit.validate import Expectations, validate_wheel
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.wheel.core_metadata import read_project
from layout import ROOT
from wheel_contents import compare_contents, load_explanations, metadata_names

DATA = ROOT / "tests" / "data"
VERSION = "0.33.0"
TARGET = "x86"
OTHER_MODULES = ("fs_io_C", "spinloop")
OPERATORS = {"_C": 90, "_C_AVX512": 58, "_C_AVX2": 58}
LIBRARIES = {"libcpuwheels_dnnl.so", "libnuma.so.1", "libtcmalloc_minimal.so"}
TERMS = {
    "oneDNN/LICENSE": "Apache License",
    "oneDNN/THIRD-PARTY-PROGRAMS": "MITSUNARI Shigeo",
    "gperftools/COPYING": "Google Inc.",
    "GCC-runtime/copyright": "GCC RUNTIME LIBRARY EXCEPTION",
    "GCC-runtime/GPL-3": "GNU GENERAL PUBLIC LICENSE",
    "numactl/copyright": "Andi Kleen",
    "numactl/LGPL-2.1": "GNU LESSER GENERAL PUBLIC LICENSE",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel() -> Path:
    folder = ROOT / "dist" / TARGET / VERSION
    found = sorted(folder.glob("vllm-*.whl"))
    if len(found) != 1:
        pytest.fail(f"{folder} holds {len(found)} wheels, expected the one that 'nox -s build-{TARGET}' leaves there")
    return found[0]


def test_files_are_upstreams_but_for_the_explained_ones(wheel: Path) -> None:
    explanations = load_explanations(DATA / f"vllm-{VERSION}-differences.yaml")
    upstream = (DATA / f"vllm-{VERSION}-files.txt").read_text().splitlines()
    with zipfile.ZipFile(wheel) as archive:
        assert compare_contents(archive.namelist(), upstream, explanations.files) == []


def test_metadata_is_upstreams_but_for_the_explained_parts(wheel: Path) -> None:
    explanations = load_explanations(DATA / f"vllm-{VERSION}-differences.yaml")
    upstream = (DATA / f"vllm-{VERSION}-metadata.txt").read_text().splitlines()
    with zipfile.ZipFile(wheel) as archive:
        info = f"vllm-{VERSION}+cpu.dist-info"
        project = read_project(archive.read(f"{info}/METADATA"), archive.read(f"{info}/entry_points.txt").decode())
    assert project.moved == ()
    assert compare_contents(metadata_names(project), upstream, explanations.metadata) == []


def test_nothing_is_wrong_with_it(wheel: Path) -> None:
    target = load_matrix(ROOT).target(TARGET)
    names = [library.name for library in target.libraries]
    expected = Expectations(
        policy=load_policy(target.floor, target.machine),
        excluded=target.excluded_libraries,
        modules=tuple(f"vllm/{name}.abi3.so" for name in (*names, *OTHER_MODULES)),
        forbidden_paths=(str(ROOT), str(Path.home() / ".cache")),
    )
    assert validate_wheel(wheel, expected) == []


def test_each_library_in_it_is_listed_with_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"vllm-{VERSION}+cpu.dist-info"
        note = json.loads(archive.read(f"{info}/cpuwheels.json"))
        texts = {name for each in note["components"] for name in each["texts"]}
        words = {name: archive.read(f"{info}/licenses/{name}").decode() for name in texts}
        held = {name.rpartition("/")[2] for name in archive.namelist() if name.rpartition("/")[2].startswith("lib")}
    names = {each["name"] for each in note["components"]}
    assert names == {"oneDNN", "gperftools", "libstdc++", "libgcc", "numactl"}
    assert sum(any(file.startswith(soname.partition(".")[0]) for soname in LIBRARIES) for file in held) == len(held)
    assert {soname for each in note["components"] for soname in each["libraries"]} == LIBRARIES
    for name, word in TERMS.items():
        assert word in words[f"third-party/{name}"]


def test_the_manifest_beside_it_has_every_operator(wheel: Path) -> None:
    manifest = json.loads((wheel.parent / "operators.json").read_text())
    counts = {library["name"]: len(library["operators"]) for library in manifest["libraries"]}
    skipped = {library["name"] for library in manifest["libraries"] if library["not_loaded"]}
    assert counts == {name: 0 if name in skipped else count for name, count in OPERATORS.items()}


def test_a_cpu_without_avx512_has_every_operator_of_one_with_it(wheel: Path) -> None:
    manifest = json.loads((wheel.parent / "operators.json").read_text())
    schemas = {library["name"]: library["operators"] for library in manifest["libraries"] if not library["not_loaded"]}
    if "_C_AVX512" not in schemas:
        pytest.skip("this CPU cannot load _C_AVX512")
    assert schemas["_C_AVX2"] == schemas["_C_AVX512"]
