from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import CompileError
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.kernels.onednn_library import find_library, keep_library
from cpuwheels.kernels.workspace import Workspace
from kernel_request import FIRST, SHARED, environment, kernel_request, toolchain, write_library

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.kernels.request import KernelRequest

CALLS = "dnnl_multiply\nat_empty\n"


@pytest.fixture
def request_(tmp_path: Path) -> KernelRequest:
    return kernel_request(tmp_path, target=SHARED)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path / "work", FIRST)
    write_library(workspace, CALLS)
    entries = [
        {"file": f"{workspace.onednn}/src/a.cpp", "output": "CMakeFiles/dnnl_cpu.dir/a.o", "command": "g++ -O3 -c a"},
        {"file": f"{workspace.source}/csrc/b.cpp", "output": "CMakeFiles/_C.dir/b.o", "command": "g++ -O2 -c b"},
    ]
    (workspace.build / "compile_commands.json").write_text(json.dumps(entries))
    return workspace


def test_it_is_found_as_it_was_made(
    store: Store, request_: KernelRequest, workspace: Workspace, tmp_path: Path
) -> None:
    assert find_library(store, request_) is None
    kept = keep_library(store, request_, workspace)
    found = find_library(store, request_)
    assert found == kept
    assert found
    assert found.calls == ("at_empty", "dnnl_multiply")
    assert found.flags == {"_C": ("-O2",), "dnnl_cpu": ("-O3",)}
    assert found.fits(workspace)
    found.place(tmp_path / "build")
    names = {str(path.relative_to(tmp_path / "build")) for path in (tmp_path / "build").rglob("*") if path.is_file()}
    assert names == {"libcpuwheels_dnnl.so", "cpuwheels-libraries.txt", "_deps/onednn-build/include/dnnl_config.h"}


def test_other_calls_need_another_one(store: Store, request_: KernelRequest, workspace: Workspace) -> None:
    kept = keep_library(store, request_, workspace)
    assert kept
    workspace.onednn_calls.write_text("dnnl_multiply\n")
    assert not kept.fits(workspace)
    other = keep_library(store, request_, workspace)
    assert other
    assert other.folder != kept.folder
    assert find_library(store, request_) == other


def test_one_that_is_gone_is_passed_over(store: Store, request_: KernelRequest, workspace: Workspace) -> None:
    first = keep_library(store, request_, workspace)
    workspace.onednn_calls.write_text("dnnl_multiply\n")
    second = keep_library(store, request_, workspace)
    assert second
    store.discard("onednn-libraries", second.folder.name)
    assert find_library(store, request_) == first


def _program(request: KernelRequest, base: Path) -> KernelRequest:
    (request.source.folder / "cmake" / "more.cmake").write_text("message(hostile)")
    return kernel_request(base, target=SHARED)


def _onednn(request: KernelRequest, base: Path) -> KernelRequest:
    assert request.onednn
    return kernel_request(base, target=SHARED, onednn=dataclasses.replace(request.onednn, digest="d" * 40))


@pytest.mark.parametrize(
    "change",
    [
        _program,
        _onednn,
        lambda _, base: kernel_request(base, target=SHARED, toolchain=toolchain(digest="other")),
        lambda _, base: kernel_request(base, target=SHARED, environment=environment(torch_digest="other")),
        lambda _, base: kernel_request(base, target=SHARED, debug_symbols=True),
        lambda _, base: kernel_request(base, target=SHARED, sanitize="address"),
        lambda _, base: kernel_request(
            base, target=SHARED.model_copy(update={"defines": {**SHARED.defines, "CPUWHEELS_ONEDNN_FLOOR": "avx2"}})
        ),
    ],
)
def test_what_decides_about_it_names_it(
    store: Store,
    request_: KernelRequest,
    workspace: Workspace,
    tmp_path: Path,
    change: Callable[[KernelRequest, Path], KernelRequest],
) -> None:
    keep_library(store, request_, workspace)
    assert find_library(store, kernel_request(tmp_path, target=SHARED))
    assert find_library(store, change(request_, tmp_path)) is None


def test_a_source_file_that_is_only_compiled_does_not_name_it(
    store: Store, request_: KernelRequest, workspace: Workspace
) -> None:
    keep_library(store, request_, workspace)
    (request_.source.folder / "csrc" / "cpu" / "ops.cpp").write_text("int changed;\n")
    assert find_library(store, request_)


def test_that_of_a_commit_is_for_commits_alone(store: Store, request_: KernelRequest, workspace: Workspace) -> None:
    keep_library(store.trusting(Trust.COMMIT), request_, workspace)
    assert find_library(store, request_) is None
    assert find_library(store.trusting(Trust.LOCAL), request_) is None
    assert find_library(store.trusting(Trust.COMMIT), request_)
    keep_library(store, request_, workspace)
    assert find_library(store.trusting(Trust.LOCAL), request_)


@pytest.mark.parametrize("defines", [{}, {"CPUWHEELS_SHARED": "dnnl=dnnl_ext", "CPUWHEELS_ONEDNN_BY_UPSTREAM": "ON"}])
def test_where_nothing_is_shared_none_is_kept(
    store: Store, workspace: Workspace, tmp_path: Path, defines: dict[str, str]
) -> None:
    request = kernel_request(tmp_path, target=SHARED.model_copy(update={"defines": defines}))
    assert keep_library(store, request, workspace) is None
    assert find_library(store, request) is None


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("replace", [_link, _fifo])
@pytest.mark.parametrize(
    "name", ["libcpuwheels_dnnl.so", "shared/called.txt", "_deps/onednn-build/include/dnnl_config.h"]
)
def test_nothing_else_is_taken_in_place_of_its_files(
    store: Store, request_: KernelRequest, workspace: Workspace, name: str, replace: Callable[[Path], None]
) -> None:
    replace(workspace.build / name)
    with pytest.raises(CompileError, match="left something that is not taken over"):
        keep_library(store, request_, workspace)
    assert find_library(store, request_) is None


def test_a_list_of_calls_that_is_no_text_is_refused(
    store: Store, request_: KernelRequest, workspace: Workspace
) -> None:
    workspace.onednn_calls.write_bytes(b"\xff\n")
    with pytest.raises(CompileError, match="it is no text"):
        keep_library(store, request_, workspace)
