"""The helpers of a build for another kind of machine are this machine's own."""

from __future__ import annotations

import platform
import shutil
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.matrix import CompilerRequirements, load_matrix
from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain.helper_toolchain import native_helpers
from cpuwheels.toolchain.host_compilers import helpers_choice
from cpuwheels.toolchain.native_helpers import probe
from cpuwheels.toolchain.select import resolve_toolchain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.core.store import Store

Make = Callable[..., BuildContext] if TYPE_CHECKING else None


@pytest.fixture
def make(project_root: Path, store: Store, logs: Path) -> Make:
    matrix = load_matrix(project_root)
    gate = CompilerRequirements(family="GNU", minimum="4", commands=("g++",))
    change = {"compiler": gate, "machine": platform.machine(), "sysroot": None, "toolchain": None}
    own = matrix.target("x86").model_copy(update=change)
    foreign = own.model_copy(update={"id": "other", "machine": "ppc64le"})

    def run(*, alone: bool = False) -> BuildContext:
        targets = (foreign,) if alone else (foreign, own)
        return build_context(store.root, foreign, store=store, logs=logs, targets=targets)

    return run


@pytest.mark.skipif(shutil.which("g++") is None or platform.system() != "Linux", reason="needs g++ on Linux")
def test_helpers_are_compiled_for_this_machine(make: Make) -> None:
    run = make()
    with pytest.raises(ToolchainError, match="no compiler of this machine can build other"):
        resolve_toolchain(run)
    assert probe(native_helpers(run).isaprobe).architecture == platform.machine()


def test_nothing_compiles_them_where_the_matrix_has_no_such_machine(make: Make) -> None:
    with pytest.raises(ToolchainError, match="nothing compiles the helpers"):
        native_helpers(make(alone=True))


@pytest.mark.parametrize(("choice", "helpers"), [("auto", "auto"), ("host", "auto"), ("debian", "debian")])
def test_a_cross_compiler_that_is_asked_for_does_not_make_the_helpers(choice, helpers) -> None:
    assert helpers_choice(choice) == helpers
