from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import ConfigureError
from cpuwheels.kernels.configure import build_environment_variables, configure, init_cache, toolchain_values
from cpuwheels.kernels.launchers import Launchers
from cpuwheels.kernels.workspace import Workspace
from cpuwheels.source.acl import Acl
from kernel_request import FIRST, TARGET, environment, kernel_request, toolchain

if TYPE_CHECKING:
    from cpuwheels.kernels.request import KernelRequest

SET = re.compile(r'set\((\w+) \[==\[(.*?)\]==\](?: CACHE STRING "")?\)\n')


def entries(text: str) -> dict[str, str]:
    found = SET.findall(text)
    assert len(found) == text.count("\n")
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work", FIRST)


def test_the_initial_cache_steers_from_outside(tmp_path: Path, workspace: Workspace) -> None:
    request = kernel_request(tmp_path)
    launchers = Launchers(["/bin/memgate", "--", "/bin/ccache"], ["/bin/memgate", "--"])
    found = entries(init_cache(request, workspace, launchers))
    assert found["CMAKE_TOOLCHAIN_FILE"] == f"{request.root}/cmake/toolchains/x86.cmake"
    assert found["CMAKE_PROJECT_TOP_LEVEL_INCLUDES"] == f"{request.root}/cmake/steer.cmake"
    assert found["FETCHCONTENT_FULLY_DISCONNECTED"] == "ON"
    assert found["CPUWHEELS_ONEDNN_SOURCE"] == str(workspace.onednn)
    assert found["CPUWHEELS_ONEDNN_TAG"] == "v3.13"
    assert found["CPUWHEELS_ONEDNN_UNUSED"] == str(workspace.unused)
    assert found["CPUWHEELS_CPUINFO"] == str(workspace.cpuinfo)
    assert found["CPUWHEELS_PYTHON_INCLUDE_DIRS"] == "/sysroot/python;/sysroot/multiarch"
    assert found["CMAKE_MAKE_PROGRAM"] == "/env/bin/ninja"
    assert found["ENABLE_AMX_FP8"] == "OFF"
    for language in ("C", "CXX"):
        assert found[f"CMAKE_{language}_COMPILER_LAUNCHER"] == "exec;/bin/memgate;--;/bin/ccache"
        assert found[f"CMAKE_{language}_LINKER_LAUNCHER"] == "/bin/memgate;--"


def test_without_a_launcher_there_is_no_entry_for_one(tmp_path: Path, workspace: Workspace) -> None:
    assert "LAUNCHER" not in init_cache(kernel_request(tmp_path), workspace, Launchers())


@pytest.mark.parametrize(
    ("acl", "there"),
    [
        (None, False),
        (Acl(None, "v52.6.0", None, "absent", {}), False),
        (Acl(Path("/store/acl"), "v52.6.0", "c" * 40, "pinned", {}), True),
    ],
)
def test_arm_compute_library_is_handed_over_or_declined(
    tmp_path: Path, workspace: Workspace, acl: Acl | None, there: bool
) -> None:
    found = entries(init_cache(kernel_request(tmp_path, acl=acl), workspace, Launchers()))
    assert found["CPUWHEELS_ACL"] == (str(workspace.acl) if there else "")


@pytest.mark.parametrize(("wanted", "flags"), [(False, "-O2 -DNDEBUG"), (True, "-O2 -DNDEBUG -g")])
def test_debug_symbols_cost_and_are_made_only_when_asked_for(
    tmp_path: Path, workspace: Workspace, wanted: bool, flags: str
) -> None:
    found = entries(init_cache(kernel_request(tmp_path, debug_symbols=wanted), workspace, Launchers()))
    assert found["CMAKE_CXX_FLAGS_RELWITHDEBINFO"] == found["CMAKE_C_FLAGS_RELWITHDEBINFO"] == flags


def test_only_kernels_for_sanitizers_are_steered_by_their_file(tmp_path: Path, workspace: Workspace) -> None:
    plain = entries(init_cache(kernel_request(tmp_path), workspace, Launchers()))
    request = kernel_request(tmp_path, sanitize="address")
    found = entries(init_cache(request, workspace, Launchers()))
    cmake = request.root / "cmake"
    assert found.pop("CPUWHEELS_SANITIZE").split(";")[0] == "-fsanitize=address,undefined"
    assert found.pop("CMAKE_PROJECT_TOP_LEVEL_INCLUDES") == f"{cmake}/steer.cmake;{cmake}/sanitize.cmake"
    plain.pop("CMAKE_PROJECT_TOP_LEVEL_INCLUDES")
    assert found == plain


def test_toolchain_values(tmp_path: Path, workspace: Workspace) -> None:
    found = entries(toolchain_values(kernel_request(tmp_path), workspace))
    assert found["CPUWHEELS_CXX"] == "/tc/g++"
    assert found["CPUWHEELS_COMPILE_FLAGS"] == "--sysroot=/sysroot -B/tc"
    assert found["CPUWHEELS_LINK_FLAGS"] == f"-L{workspace.build}/gomp_shim -nostdlib++"
    assert found["CPUWHEELS_CXX_LIBRARIES"] == "/tc/libstdc++.a"
    maps = dict(item.split("=") for item in found["CPUWHEELS_PREFIX_MAPS"].split(";"))
    absolute = {path: name for path, name in maps.items() if path.startswith("/")}
    generated = {str(folder) for folder in workspace.generated}
    own = {str(place) for place in (workspace.source, workspace.build, workspace.onednn, workspace.acl)}
    assert own | generated | {"/env/site", "/tc"} == set(absolute)
    assert all(name.startswith("/usr/src/") for name in maps.values())
    assert len(set(absolute.values())) == len(absolute)


def test_paths_seen_from_the_build_folder_get_the_same_names(tmp_path: Path, workspace: Workspace) -> None:
    found = entries(toolchain_values(kernel_request(tmp_path), workspace))
    maps = dict(item.split("=") for item in found["CPUWHEELS_PREFIX_MAPS"].split(";"))
    relative = {path: name for path, name in maps.items() if not path.startswith("/")}
    assert {"../vllm", "../onednn", "attention"} < set(relative)
    for path, name in relative.items():
        assert maps[os.path.normpath(workspace.build / path)] == name
    # Nothing that begins like another path, as "." would.
    assert not any(path.strip("./") == "" for path in relative)


def test_a_toolchain_without_a_sysroot(tmp_path: Path, workspace: Workspace) -> None:
    found = entries(toolchain_values(kernel_request(tmp_path, toolchain=toolchain(sysroot=None)), workspace))
    assert found["CPUWHEELS_SYSROOT"] == ""


def test_nothing_of_the_callers_settings_reaches_cmake(
    tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CXXFLAGS", "CMAKE_ARGS", "VLLM_CPU_AVX512BF16", "CMAKE_BUILD_PARALLEL_LEVEL", "PYTHONPATH"):
        monkeypatch.setenv(name, "surprise")
    env = build_environment_variables(kernel_request(tmp_path), workspace, Launchers())
    assert "surprise" not in env.values()
    assert env["VLLM_TARGET_DEVICE"] == "cpu"
    assert env["PATH"].startswith("/env/bin:")
    assert env["GIT_CEILING_DIRECTORIES"] == str(workspace.folder)


def test_the_age_of_the_source_does_not_reach_the_kernels(tmp_path: Path, workspace: Workspace) -> None:
    # It is not part of their key.
    request = kernel_request(tmp_path)
    older = replace(request, source=replace(request.source, epoch=1))
    found = [build_environment_variables(each, workspace, Launchers()) for each in (older, request)]
    assert found[0] == found[1]
    assert init_cache(older, workspace, Launchers()) == init_cache(request, workspace, Launchers())


@pytest.fixture
def with_cmake(tmp_path: Path) -> KernelRequest:
    """A request whose cmake counts its runs, makes the build folder, and fails while a file named fail is there."""
    scripts = tmp_path / "env" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "cmake").write_text(
        f"#!/bin/sh\necho run >> {tmp_path}/runs\nmkdir -p {tmp_path}/work/build\n"
        f'if [ -e {tmp_path}/fail ]; then echo "CMake Error: no"; exit 1; fi\n'
    )
    (scripts / "cmake").chmod(0o755)
    return kernel_request(tmp_path, environment=environment(python=scripts / "python"))


def runs(base: Path) -> int:
    return len((base / "runs").read_text().splitlines())


def test_configured_once_and_again_when_a_setting_changes(
    tmp_path: Path, workspace: Workspace, with_cmake: KernelRequest, logs: Path
) -> None:
    workspace.prepare(with_cmake)
    configure(with_cmake, workspace, Launchers(), logs / "c.log")
    (workspace.build / "object.o").write_text("")
    configure(with_cmake, workspace, Launchers(), logs / "c.log")
    assert runs(tmp_path) == 1
    assert (workspace.build / "object.o").exists()
    configure(with_cmake, workspace, Launchers(["memgate"], ["memgate"]), logs / "c.log")
    assert runs(tmp_path) == 2
    assert not (workspace.build / "object.o").exists()


@pytest.mark.parametrize(
    ("files", "torch", "system", "linked"),
    [
        (["libgomp.so.1"], "/store/torch", "Linux", True),
        (["libgomp.so.1", "libgomp.so"], "/store/torch", "Linux", False),
        (["libgomp.so.1"], "/env/site/torch", "Linux", False),
        (["libgomp.so.1"], "/store/torch", "Darwin", False),
        ([], "/store/torch", "Linux", False),
    ],
    ids=["debian", "the linker's name is there", "PyTorch's", "another system", "none"],
)
def test_debians_torch_is_used_with_the_sysroots_openmp(
    tmp_path: Path,
    workspace: Workspace,
    with_cmake: KernelRequest,
    logs: Path,
    files: list[str],
    torch: str,
    system: str,
    linked: bool,
) -> None:
    folder = tmp_path / "sysroot"
    folder.mkdir()
    for name in files:
        (folder / name).touch()
    request = replace(
        with_cmake,
        environment=replace(with_cmake.environment, torch_folder=Path(torch)),
        toolchain=toolchain(library_folders=(tmp_path / "nowhere", folder)),
        target=TARGET.model_copy(update={"system": system}),
    )
    assert entries(init_cache(request, workspace, Launchers())).get("OPEN_MP") == (
        str(workspace.openmp) if linked else None
    )
    workspace.prepare(request)
    configure(request, workspace, Launchers(), logs / "c.log")
    assert workspace.openmp.exists() is linked
    if linked:
        assert workspace.openmp.samefile(folder / "libgomp.so.1")
        assert f"-L{workspace.openmp.parent}" in toolchain_values(request, workspace)


def test_a_failed_configuration_is_told_and_not_taken_for_done(
    tmp_path: Path, workspace: Workspace, with_cmake: KernelRequest, logs: Path
) -> None:
    workspace.prepare(with_cmake)
    (tmp_path / "fail").write_text("")
    with pytest.raises(ConfigureError, match=r"vLLM 0\.32\.0") as raised:
        configure(with_cmake, workspace, Launchers(), logs / "c.log")
    assert raised.value.output == "CMake Error: no"
    assert raised.value.log == logs / "c.log"
    assert raised.value.next_step
    (tmp_path / "fail").unlink()
    configure(with_cmake, workspace, Launchers(), logs / "c.log")
    assert runs(tmp_path) == 2
