"""What stands in front of compilers and linkers, and what names an object beside the files that were read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.kernels.ccache.settings import SCRIPTS, CompilerCache
from cpuwheels.kernels.launchers import HEADERS, ONEDNN_HEADERS, Launchers, object_identity, onednn_identity
from cpuwheels.kernels.memory.memgate import GateFolder
from cpuwheels.source.acl import Acl
from cpuwheels.source.onednn import OneDnn
from kernel_request import TARGET, environment, kernel_request, toolchain
from layout import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cpuwheels.kernels.request import KernelRequest

GATE = GateFolder(Path("/work/gate"), Path("/bin/memgate"))
MEMGATE = ["/bin/memgate", "--gate", "/work/gate", "--ledger", "/work/jobs"]


def test_memgate_stands_before_the_cache(tmp_path: Path) -> None:
    cache = CompilerCache(Path("/bin/ccache"), tmp_path)
    found = Launchers.of(GATE, Path("/work/jobs"), cache, kernel_request(tmp_path))
    assert found.compiler == [*MEMGATE, "--note", "CCACHE_STATSLOG", "--", *cache.launcher()]
    assert cache.launcher() == [str(SCRIPTS / "defer-header"), "/bin/ccache"]
    assert found.linker == [*MEMGATE, "--"]
    assert found.environment["CCACHE_DIR"] == f"{tmp_path}/compiler-cache"
    for language in ("C", "CXX"):
        assert found.variables()[f"CMAKE_{language}_COMPILER_LAUNCHER"] == ";".join(["exec", *found.compiler])
        assert found.variables()[f"CMAKE_{language}_LINKER_LAUNCHER"] == ";".join(found.linker)


def test_objects_of_onednn_are_looked_up_by_another_name(tmp_path: Path) -> None:
    cache, request = CompilerCache(Path("/bin/ccache"), tmp_path), kernel_request(tmp_path)
    found = Launchers.of(GATE, Path("/work/jobs"), cache, request)
    assert found.onednn == [*found.compiler, f"compiler_check=string:{onednn_identity(request)}"]
    assert found.environment["CCACHE_COMPILERCHECK"] == f"string:{object_identity(request)}"
    assert found.variables()["CPUWHEELS_ONEDNN_LAUNCHER"] == ";".join(["exec", *found.onednn])
    without = Launchers.of(GATE, Path("/work/jobs"), cache, replace(request, onednn=None))
    assert "CPUWHEELS_ONEDNN_LAUNCHER" not in without.variables()


def test_without_a_cache(tmp_path: Path) -> None:
    found = Launchers.of(GATE, Path("/work/jobs"), None, kernel_request(tmp_path))
    assert found.compiler == found.linker == [*MEMGATE, "--"]
    assert found.environment == {}


def test_without_launchers_there_are_no_variables() -> None:
    assert Launchers().variables() == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"toolchain": toolchain(digest="other")},
        {"environment": environment(torch_digest="other")},
        {"onednn": OneDnn(Path("/onednn"), "v3.13", "d" * 40, "d" * 40, "pinned")},
        {"acl": Acl(Path("/acl"), "v52.6.0", "e" * 40, "pinned", {})},
    ],
)
def test_objects_of_other_compilers_and_headers_have_another_identity(tmp_path: Path, changes: dict[str, Any]) -> None:
    known = object_identity(kernel_request(tmp_path / "a"))
    assert object_identity(kernel_request(tmp_path / "b")) == known
    assert object_identity(kernel_request(tmp_path / "c", **changes)) != known


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"environment": environment(torch_digest="other")}, True),
        ({"toolchain": toolchain(digest="other")}, False),
        ({"onednn": OneDnn(Path("/onednn"), "v3.13", "d" * 40, "d" * 40, "pinned")}, False),
        ({"acl": Acl(Path("/acl"), "v52.6.0", "e" * 40, "pinned", {})}, False),
    ],
)
def test_objects_of_onednn_have_nothing_to_do_with_vllm_and_torch(
    tmp_path: Path, changes: dict[str, Any], *, same: bool
) -> None:
    request = kernel_request(tmp_path / "a")
    known = onednn_identity(request)
    (request.source.folder / "csrc" / "cpu" / "hidden.h").write_text("")
    (request.onednn.folder / "hidden.h").write_text("")
    assert onednn_identity(request) == known
    assert (onednn_identity(kernel_request(tmp_path / "b", **changes)) == known) is same


def test_a_header_that_could_hide_another_changes_the_identity(tmp_path: Path) -> None:
    request = kernel_request(tmp_path)
    before = object_identity(request)
    csrc = request.source.folder / "csrc"
    (csrc / "cpu" / "fresh.hpp").write_text("")
    assert object_identity(request) == before
    (csrc / "cpu" / "CMakeLists.txt").write_text("")  # never included
    assert object_identity(request) == before
    (csrc / "cpu" / "hidden.h").write_text("")
    (request.onednn.folder / "hidden.h").write_text("")
    assert object_identity(request) != before


@pytest.mark.parametrize(
    ("identity", "names", "steering"),
    [(object_identity, HEADERS, "headers.cmake"), (onednn_identity, ONEDNN_HEADERS, "onednn.cmake")],
)
def test_a_header_that_steering_writes_changes_the_identity(
    tmp_path: Path, identity: Callable[[KernelRequest], str], names: tuple[str, ...], steering: str
) -> None:
    """Compilers find it before another of the same name, of which they had read something."""
    request = kernel_request(tmp_path)
    known = {identity(request)}
    for name in names:
        assert name in (ROOT / "cmake/steer" / steering).read_text()
        target = TARGET.model_copy(update={"defines": {**TARGET.defines, name: "a/header.h"}})
        known.add(identity(replace(request, target=target)))
    assert len(known) == 1 + len(names)
    target = TARGET.model_copy(update={"defines": {"ENABLE_AMX_FP8": "ON"}})
    assert identity(replace(request, target=target)) in known
