from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import CompileError
from cpuwheels.core.filesystem import holding
from cpuwheels.core.sealed_entry import MANIFEST
from cpuwheels.kernels.workspace import Workspace
from kernel_request import FIRST, kernel_request

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.kernels.request import KernelRequest


@pytest.fixture
def request_(tmp_path: Path) -> KernelRequest:
    request = kernel_request(tmp_path)
    for folder in (request.source.folder, request.onednn.folder):
        (folder / MANIFEST).write_text("{}")
    (request.source.folder / "csrc" / "link").symlink_to("cpu/ops.cpp")
    return request


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work", FIRST)


def test_sources_are_copied_and_the_stores_own_stay_as_they_are(workspace: Workspace, request_: KernelRequest) -> None:
    workspace.prepare(request_)
    assert (workspace.source / "csrc" / "cpu" / "ops.cpp").is_file()
    assert (workspace.source / "csrc" / "link").is_symlink()
    assert (workspace.source / "CMakeLists.txt").is_file()
    # What no key of kernels names is not there to be run.
    assert {path.name for path in workspace.source.iterdir()} == {"CMakeLists.txt", "cmake", "csrc"}
    assert (workspace.onednn / "CMakeLists.txt").is_file()
    assert workspace.cpuinfo.read_text() == "x86-64"
    assert not (workspace.source / MANIFEST).exists()
    before = (request_.source.folder / "csrc/cpu/ops.cpp").read_text()
    (workspace.source / "csrc/cpu/ops.cpp").write_text("generated")
    assert (request_.source.folder / "csrc/cpu/ops.cpp").read_text() == before


@pytest.mark.parametrize("target", ["/etc/passwd", "../../setup.py", "../nowhere", "/"])
def test_a_link_to_what_no_key_names_is_refused(workspace: Workspace, request_: KernelRequest, target: str) -> None:
    (request_.source.folder / "csrc" / "cpu" / "secret.h").symlink_to(target)
    with pytest.raises(CompileError, match=r"csrc/cpu/secret\.h is a symbolic link to"):
        workspace.prepare(request_)
    assert not workspace.source.exists()


def test_onednn_that_is_built_already_is_only_read(workspace: Workspace, request_: KernelRequest) -> None:
    workspace.prepare(request_, has_onednn=True)
    assert workspace.onednn.resolve() == request_.onednn.folder.resolve()
    workspace.prepare(request_)
    assert not workspace.onednn.is_symlink()
    assert (workspace.onednn / "CMakeLists.txt").is_file()
    (workspace.onednn / "own").touch()
    workspace.prepare(request_)
    assert (workspace.onednn / "own").is_file()
    workspace.prepare(request_, has_onednn=True)
    assert workspace.onednn.is_symlink()
    workspace.onednn.unlink()
    workspace.onednn.symlink_to("/etc")  # as a hostile build would leave it for the next run
    workspace.prepare(request_, has_onednn=True)
    assert workspace.onednn.resolve() == request_.onednn.folder.resolve()
    assert (request_.onednn.folder / "CMakeLists.txt").is_file()


def test_a_finished_preparation_is_gone_on_from(workspace: Workspace, request_: KernelRequest) -> None:
    workspace.prepare(request_)
    workspace.build.mkdir()
    (workspace.build / "object.o").write_text("")
    Workspace(workspace.folder, FIRST).prepare(request_)
    assert (workspace.build / "object.o").exists()


def test_who_holds_the_folder_holds_it_after_its_preparation(workspace: Workspace, request_: KernelRequest) -> None:
    workspace.folder.mkdir()
    (workspace.folder / "half").write_text("")
    with holding(workspace.folder) as held:
        assert held
        workspace.prepare(request_)
        assert not (workspace.folder / "half").exists()
        with holding(workspace.folder) as free:
            assert not free


def test_a_preparation_that_was_cut_short_starts_over(workspace: Workspace, request_: KernelRequest) -> None:
    (workspace.source / "half").mkdir(parents=True)
    workspace.prepare(request_)
    assert not (workspace.source / "half").exists()


def test_a_configuration_counts_only_with_the_same_settings(workspace: Workspace, request_: KernelRequest) -> None:
    workspace.prepare(request_)
    workspace.init_cache.write_text("a")
    workspace.toolchain_values.write_text("b")
    assert not workspace.is_configured("a", "b")
    workspace.mark_configured()
    assert workspace.is_configured("a", "b")
    assert not workspace.is_configured("A", "b")
    assert not workspace.is_configured("a", "B")


def test_a_forgotten_configuration_takes_the_build_folder_with_it(
    workspace: Workspace, request_: KernelRequest
) -> None:
    workspace.prepare(request_)
    (workspace.build / "deep").mkdir(parents=True)
    workspace.init_cache.write_text("a")
    workspace.toolchain_values.write_text("b")
    workspace.mark_configured()
    workspace.forget_configuration()
    assert not workspace.is_configured("a", "b")
    assert not workspace.build.exists()
    assert workspace.source.is_dir()
    workspace.forget_configuration()


def test_modules_are_what_upstreams_cmake_defined(workspace: Workspace) -> None:
    workspace.build.mkdir(parents=True)
    workspace.modules_list.write_text("_C\n_C_AVX2\nspinloop\n")
    assert workspace.modules() == ["_C", "_C_AVX2", "spinloop"]
