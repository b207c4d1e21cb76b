"""The helpers of a build for another kind of machine are this machine's own."""

from __future__ import annotations

import io
import platform
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from cpuwheels.config import Places
from cpuwheels.console import Reporter
from cpuwheels.errors import LockedError, ToolchainError
from cpuwheels.model.matrix import CompilerGate, Matrix, load_matrix
from cpuwheels.native import probe
from cpuwheels.options import BuildOptions
from cpuwheels.run import Run, helpers_choice

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.store import Store

Make = Callable[..., Run] if TYPE_CHECKING else None


@pytest.fixture
def make(project_root: Path, store: Store, logs: Path) -> Make:
    matrix = load_matrix(project_root)
    gate = CompilerGate(family="GNU", minimum="4", commands=("g++",))
    change = {"compiler": gate, "machine": platform.machine(), "sysroot": None, "toolchain": None}
    own = matrix.target("x86").model_copy(update=change)
    foreign = own.model_copy(update={"id": "other", "machine": "ppc64le"})

    def run(*, alone: bool = False) -> Run:
        some: Matrix = matrix.model_copy(update={"targets": (foreign,) if alone else (foreign, own)})
        places = Places(root=project_root, cache=store.root, dist=logs)
        reporter = Reporter("other", Console(file=io.StringIO()))
        return Run(places, some, foreign, BuildOptions(), store, reporter, logs)

    return run


@pytest.mark.skipif(shutil.which("g++") is None or platform.system() != "Linux", reason="needs g++ on Linux")
def test_helpers_are_compiled_for_this_machine(make: Make) -> None:
    run = make()
    with pytest.raises(ToolchainError, match="no compiler of this machine can build other"):
        run.toolchain()
    assert probe(run.native().isaprobe).architecture == platform.machine()


def test_nothing_compiles_them_where_the_matrix_has_no_such_machine(make: Make) -> None:
    with pytest.raises(ToolchainError, match="nothing compiles the helpers"):
        make(alone=True).native()


@pytest.mark.parametrize(("choice", "helpers"), [("auto", "auto"), ("host", "auto"), ("debian", "debian")])
def test_a_cross_compiler_that_is_asked_for_does_not_make_the_helpers(choice, helpers) -> None:
    assert helpers_choice(choice) == helpers


def test_a_torch_that_the_matrix_does_not_know_is_said_and_looked_for(make: Make) -> None:
    run = make()
    run.check_torch("2.13.0")
    assert run.reporter.announcements == []
    run.check_torch("2.99.0")
    (said,) = run.reporter.announcements
    assert "torch 2.99.0, which matrix.yaml does not know" in said
    pin = run.torch_pin("2.99.0")
    assert pin.index == run.matrix.torch["2.14.0"].index
    assert (pin.wheels, pin.alternates) == ((), ())


def test_a_torch_that_the_matrix_does_not_know_is_refused_if_locked(make: Make) -> None:
    run = replace(make(), options=BuildOptions(locked=True))
    run.check_torch("2.13.0")
    with pytest.raises(LockedError, match=r"torch 2\.99\.0, which the matrix does not know"):
        run.check_torch("2.99.0")
