"""A step below the best mechanism of this machine, and the world outside of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from confinement import Confinement, World, pinned_bubblewrap, world
from cpuwheels.sandbox.mechanism import Mechanism


@pytest.fixture(scope="session")
def mechanism(tmp_path_factory: pytest.TempPathFactory) -> Mechanism:
    return Mechanism("user namespace", program=pinned_bubblewrap(tmp_path_factory.mktemp("bubblewrap")))


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[World]:
    """Files, servers and a process; after each case they are as they were."""
    with world(tmp_path / "outside") as made:
        yield made
        assert made.unharmed()


@pytest.fixture
def inside(mechanism: Mechanism, outside: World) -> Confinement:
    folder = outside.base.parent / "inside"
    folder.mkdir()
    return Confinement(mechanism, folder)
