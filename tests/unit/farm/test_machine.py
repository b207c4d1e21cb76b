"""What machines offer, and which jobs fit."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.errors import FarmError
from cpuwheels.core.store import Store
from cpuwheels.farm.job import Needs
from cpuwheels.farm.machine import fits, require_machine, resources_of, this_offers
from farms import machine

GIB = 1 << 30


@pytest.mark.parametrize(
    ("needs", "lacks"),
    [
        (Needs(can="build:x86", memory=GIB), ""),
        (Needs(can="build:x86", memory=9 * GIB), "m has 8 GiB for a build that needs 9 GiB"),
        (Needs(can="build:s390x"), "m cannot build s390x"),
        (Needs(can="test:x86", features=frozenset({"avx2"})), ""),
        (Needs(can="test:x86", features=frozenset({"avx2", "amx-usable"})), "the CPU of m has no amx-usable"),
    ],
)
def test_what_a_machine_lacks_is_what_its_resources_do_not_have(needs: Needs, lacks: str) -> None:
    one = machine("m", features=frozenset({"avx2"}))
    assert one.lacks(needs) == lacks
    assert fits(needs, one.resources()) is not bool(lacks)
    assert resources_of(needs)["job"] == one.resources()["job"] == 1, "one job at a time"


def test_the_machines_that_can_are_named_or_what_they_lack() -> None:
    offered = {name: machine(name, memory=size).resources() for name, size in (("small", GIB), ("large", 4 * GIB))}
    assert require_machine(Needs(can="build:x86", memory=2 * GIB), "j", offered) == ["large"]
    with pytest.raises(FarmError, match="no machine can do j: it has to build x86, with 8 GiB") as raised:
        require_machine(Needs(can="build:x86", memory=8 * GIB), "j", offered)
    assert "large: build arm, build x86, serve x86, test x86; 4 GiB, 2 CPUs" in raised.value.output
    with pytest.raises(FarmError, match="it has to test x86, amx-usable"):
        require_machine(Needs(can="test:x86", features=frozenset({"amx-usable"})), "j", {})


def test_this_machine(tmp_path: Path, project_root: Path) -> None:
    matrix = load_matrix(project_root)
    found = this_offers("here", matrix, project_root, Store(tmp_path), "3G")
    assert (found.name, found.memory) == ("here", 3 * GIB)
    assert found.cpus >= 1
    own = next(target for target in matrix.targets if target.machine == platform.machine() and target.system == "Linux")
    assert {f"build:{own.id}", f"test:{own.id}", f"serve:{own.id}"} <= found.can
    foreign = {target.id for target in matrix.targets if target.machine != platform.machine()}
    assert not {f"serve:{name}" for name in foreign} & found.can
    if platform.machine() == "x86_64":
        assert "test:arm" in found.can, "in an emulated machine"
        assert "build:arm" in found.can, "by a cross compiler"
