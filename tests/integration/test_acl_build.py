"""A stand-in for Arm Compute Library: fetched, compiled below the cap, kept, and found as oneDNN looks for it."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.pins import AclPin
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CompileError, ConfigureError
from cpuwheels.core.store import Store
from cpuwheels.kernels.acl_library import get_acl_library
from cpuwheels.kernels.ccache.install import chosen_cache
from cpuwheels.kernels.memory.admission import open_gate
from cpuwheels.kernels.memory.ledger import read_records
from cpuwheels.kernels.memory.plan import memory_cap, plan
from cpuwheels.kernels.request import KernelRequest
from cpuwheels.source.acl import get_acl
from cpuwheels.source.onednn import OneDnn
from cpuwheels.source.patched import PreparedSource
from cpuwheels.toolchain.helper_toolchain import native_helpers
from layout import ROOT
from tiny_project import make_repository

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.kernels.memory.admission import CapPlan
    from cpuwheels.source.acl import Acl
    from cpuwheels.toolchain.result import Toolchain

pytestmark = pytest.mark.slow

OPTIONS = {"CMAKE_BUILD_TYPE": "Release", "ARM_COMPUTE_BUILD_SHARED_LIB": "OFF", "ARM_COMPUTE_ARCH": "tiny"}

FINDER = """\
cmake_minimum_required(VERSION 3.26)
include({root}/cmake/steer/acl.cmake)
set(ONEDNN_AARCH64_USE_ACL OFF CACHE BOOL "")
project(finder CXX)
find_path(ACL_INCLUDE_DIR NAMES arm_compute/graph.h PATHS ENV ACL_ROOT_DIR)
find_path(ACL_EXTRA_INCLUDE_DIR NAMES half/half.hpp PATHS ENV ACL_ROOT_DIR PATH_SUFFIXES include)
find_library(ACL_LIBRARY NAMES arm_compute PATHS ENV ACL_ROOT_DIR PATH_SUFFIXES lib build)
find_library(ACL_GRAPH_LIBRARY NAMES arm_compute_graph PATHS ENV ACL_ROOT_DIR PATH_SUFFIXES lib build)
get_directory_property(_defined COMPILE_DEFINITIONS)
file(
  WRITE "${{CMAKE_BINARY_DIR}}/found"
  "${{ONEDNN_AARCH64_USE_ACL}};${{_defined}};${{ACL_INCLUDE_DIR}};${{ACL_EXTRA_INCLUDE_DIR}};"
  "${{ACL_LIBRARY}};${{ACL_GRAPH_LIBRARY}}"
)
"""


class Scene:
    """One store, and what is needed to compile the stand-in into it."""

    def __init__(self, this: BuildContext, environment: Environment, toolchain: Toolchain, folder: Path) -> None:
        self.folder = folder
        self.reporter = Reporter("x86")
        self.context = dataclasses.replace(
            this, store=Store(folder / "cache"), logs=folder / "logs", reporter=self.reporter
        )
        source = PreparedSource("0.1.0", folder / "source", 0, ())
        onednn = OneDnn(folder / "onednn", "v0.1", "c" * 40, "c" * 40, "pinned")
        self.request = KernelRequest(
            root=ROOT, target=this.target, source=source, toolchain=toolchain, environment=environment, onednn=onednn
        )
        self.memgate = native_helpers(this, toolchain).memgate

    def sources(self, repository: Path, commit: str, **options: str) -> Acl:
        pin = AclPin(commit=commit, repositories=(str(repository),), machines=("x86_64",), options=OPTIONS | options)
        return get_acl(self.context, "v0.1", pin, environ={})

    def plan(self) -> CapPlan:
        jobs = plan(self.context.root, self.context.target, self.context.options)
        return memory_cap(self.context, jobs, self.memgate)(self.folder / "gate")

    def compiled(self, acl: Acl) -> Path:
        plan = self.plan()
        open_gate(plan)
        folder = get_acl_library(
            self.context, dataclasses.replace(self.request, acl=acl), plan, chosen_cache(self.context)
        )
        assert folder is not None
        return folder


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return make_repository(Path(__file__).parent / "tiny_acl", tmp_path_factory.mktemp("acl") / "repository")


@pytest.fixture
def scene(this: BuildContext, environment: Environment, toolchain: Toolchain, tmp_path: Path) -> Scene:
    return Scene(this, environment, toolchain, tmp_path)


def find(scene: Scene, folder: Path | None) -> list[str]:
    """Return what oneDNN's way of looking finds, after ONEDNN_AARCH64_USE_ACL and the directory's definitions."""
    place = scene.folder / "finder"
    place.mkdir(exist_ok=True)
    (place / "CMakeLists.txt").write_text(FINDER.format(root=ROOT))
    command = [
        scene.request.environment.scripts / "cmake",
        "--fresh",
        "-S",
        place,
        "-B",
        place / "build",
        "-G",
        "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={scene.request.environment.scripts / 'ninja'}",
        f"-DCPUWHEELS_ACL={folder or ''}",
        f"-DCMAKE_CXX_COMPILER={scene.request.toolchain.cxx}",
        "-DCMAKE_CXX_COMPILER_WORKS=ON",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return (place / "build" / "found").read_text().split(";")


def test_compiled_once_below_the_cap(scene: Scene, repository: tuple[Path, str]) -> None:
    acl = scene.sources(*repository)
    folder = scene.compiled(acl)
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {
        "arm_compute/graph.h",
        "arm_compute/core/Tiny.h",
        "include/half/half.hpp",
        "arm_compute_version.embed",
        "build/libarm_compute.a",
        "build/libarm_compute_graph.a",
    } < names
    assert not any(name.endswith(".cpp") for name in names)

    jobs = {job.output for job in read_records(folder / "jobs.jsonl")}
    assert "CMakeFiles/arm_compute_core.dir/src/core.cpp.o" in jobs
    assert "CMakeFiles/arm_compute_core.dir/src/core.cpp.o" in scene.plan().learned.read_text()

    # The toolchain's flags are there although the project emptied them: no path of the build is in the archive.
    archive = (folder / "build" / "libarm_compute.a").read_bytes()
    assert b"/usr/src/cpuwheels/acl/src/core.cpp for tiny" in archive
    assert str(scene.folder).encode() not in archive
    nm = subprocess.run(
        ["readelf", "-sW", folder / "build" / "libarm_compute.a"], check=True, capture_output=True, text=True
    )
    (symbol,) = (line for line in nm.stdout.splitlines() if "tiny_place" in line)
    assert "HIDDEN" in symbol

    assert find(scene, folder) == [
        "ON",
        "VLLM_USE_ACL",
        str(folder),
        f"{folder}/include",
        f"{folder}/build/libarm_compute.a",
        f"{folder}/build/libarm_compute_graph.a",
    ]
    assert find(scene, None)[:3] == ["OFF", "", "ACL_INCLUDE_DIR-NOTFOUND"]

    # Once: neither the work folder nor a second compilation.
    before = (scene.context.logs / "acl-compile.log").read_text()
    assert not list((scene.context.store.root / "work").glob("acl-*"))
    assert scene.compiled(acl) == folder
    assert (scene.context.logs / "acl-compile.log").read_text() == before


def test_other_options_and_another_commit_are_other_libraries(
    scene: Scene, repository: tuple[Path, str], tmp_path: Path
) -> None:
    clone, commit = repository
    folder = scene.compiled(scene.sources(clone, commit))
    other = scene.compiled(scene.sources(clone, commit, ARM_COMPUTE_ARCH="other"))
    assert other != folder
    assert b"core.cpp for other" in (other / "build" / "libarm_compute.a").read_bytes()
    changed = tmp_path / "changed"
    subprocess.run(["git", "clone", "--quiet", clone, changed], check=True)
    (changed / "src" / "graph.cpp").write_text("int tiny_graph() { return 2; }\n")
    who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    subprocess.run(["git", "-C", changed, *who, "commit", "--quiet", "-am", "two"], check=True)
    newer = subprocess.run(["git", "-C", changed, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert scene.compiled(scene.sources(changed, newer.stdout.strip())) not in {folder, other}


def test_what_goes_wrong_is_told_and_gone_on_with(scene: Scene, repository: tuple[Path, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigureError, match=r"Arm Compute Library v0\.1") as raised:
        scene.compiled(scene.sources(*repository, ARM_COMPUTE_BUILD_SHARED_LIB="ON"))
    assert "did not come through" in raised.value.output

    broken = tmp_path / "broken"
    subprocess.run(["git", "clone", "--quiet", repository[0], broken], check=True)
    (broken / "src" / "graph.cpp").write_text("no code\n")
    who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    subprocess.run(["git", "-C", broken, *who, "commit", "--quiet", "-am", "broken"], check=True)
    commit = subprocess.run(["git", "-C", broken, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    acl = scene.sources(broken, commit.stdout.strip())
    for _ in range(2):
        with pytest.raises(CompileError, match=r"graph\.cpp\.o could not be made"):
            scene.compiled(acl)
    assert not list((scene.context.store.root / "acl-built").glob("[!.]*"))
