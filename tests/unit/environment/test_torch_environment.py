"""What is done about a torch that the matrix knows, and about one that it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.pins import TorchPin
from cpuwheels.core.errors import LockedError
from cpuwheels.environment.torch_environment import check_torch, torch_pin

if TYPE_CHECKING:
    from pathlib import Path


def test_a_torch_that_the_matrix_does_not_know_is_said_and_looked_for(tmp_path: Path) -> None:
    run = build_context(tmp_path)
    check_torch(run, "2.13.0")
    assert run.reporter.announcements == []
    check_torch(run, "2.99.0")
    (said,) = run.reporter.announcements
    assert "torch 2.99.0, which matrix.yaml does not know" in said
    pin = torch_pin(run.matrix, "2.99.0")
    assert pin.index == run.matrix.torch["2.14.0"].index
    assert (pin.wheels, pin.alternates) == ((), ())


def test_the_newest_torch_is_by_number_not_by_text(tmp_path: Path) -> None:
    torch = {"2.9.0": TorchPin(index="https://old"), "2.13.0": TorchPin(index="https://new")}
    assert (
        torch_pin(build_context(tmp_path).matrix.model_copy(update={"torch": torch}), "2.99.0").index == "https://new"
    )


def test_a_torch_that_the_matrix_does_not_know_is_refused_if_locked(tmp_path: Path) -> None:
    run = replace(build_context(tmp_path), options=BuildOptions(locked=True))
    check_torch(run, "2.13.0")
    with pytest.raises(LockedError, match=r"torch 2\.99\.0, which the matrix does not know"):
        check_torch(run, "2.99.0")
