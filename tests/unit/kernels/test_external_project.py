"""What names a compiled project; compiling one is in tests/integration/test_acl_build.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.kernels.acl_library import get_acl_library
from cpuwheels.kernels.external_project import Project
from cpuwheels.kernels.workspace import Workspace
from cpuwheels.source.acl import Acl
from kernel_request import FIRST, TARGET, environment, kernel_request, toolchain

PROJECT = Project("thing", "Thing v1", Path("/store/thing"), "c" * 40, {"A": "1"}, ("thing",))


@pytest.mark.parametrize(
    "changes", [{"digest": "d" * 40}, {"options": {"A": "2"}}, {"libraries": ("thing", "other")}, {"kind": "other"}]
)
def test_another_project_has_another_key(tmp_path: Path, changes: dict[str, Any]) -> None:
    request = kernel_request(tmp_path)
    assert replace(PROJECT, **changes).key(request) != PROJECT.key(request)


@pytest.mark.parametrize(
    ("replaced", "matters"),
    [
        ({"toolchain": toolchain(digest="other")}, True),
        ({"environment": environment(tools={"cmake": "4.1.0"})}, True),
        ({"target": TARGET.model_copy(update={"machine": "aarch64"})}, True),
        # One library serves every vLLM and every torch.
        ({"environment": environment(torch_version="2.14.0+cpu", torch_digest="other")}, False),
        ({"target": TARGET.model_copy(update={"defines": {"ENABLE_AMX_FP8": "ON"}})}, False),
        ({"debug_symbols": True}, False),
    ],
)
def test_what_of_a_request_matters(tmp_path: Path, replaced: dict[str, Any], matters: bool) -> None:
    known = PROJECT.key(kernel_request(tmp_path / "a"))
    assert (PROJECT.key(kernel_request(tmp_path / "b", **replaced)) != known) is matters


@pytest.mark.parametrize(
    ("name", "matters"), [("project.cmake", True), ("toolchains/gnu.cmake", True), ("steer.cmake", False)]
)
def test_which_steering_files_matter(tmp_path: Path, name: str, matters: bool) -> None:
    request = kernel_request(tmp_path)
    before = PROJECT.key(request)
    (request.root / "cmake" / name).write_text("changed")
    assert (PROJECT.key(request) != before) is matters


@pytest.mark.parametrize("acl", [None, Acl(None, "v52.6.0", None, "absent", {})])
def test_kernels_that_go_without_compile_nothing(tmp_path: Path, acl: Acl | None) -> None:
    asked: Any = None  # neither cap nor store is looked at
    request = kernel_request(tmp_path, acl=acl)
    assert get_acl_library(asked, request, asked, None) is None


def test_the_compiled_library_has_a_place_in_the_workspace(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, FIRST)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        workspace.link_acl(tmp_path / name)
        assert workspace.acl.resolve() == tmp_path / name
    workspace.link_acl(None)
    assert not workspace.acl.exists()
