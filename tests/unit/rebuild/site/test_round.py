"""What is new is rebuilt in order, within a budget; nothing twice, and nothing that is bad ends the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.budget import Budget
from cpuwheels.core.errors import (
    CpuwheelsError,
    DiskFullError,
    DownloadError,
    NotReproducedError,
    PostponedError,
    ProvenanceError,
    RebuildError,
    SandboxError,
)
from cpuwheels.rebuild.build import BuildFailedError
from cpuwheels.rebuild.site.folder import open_site
from cpuwheels.rebuild.site.newest import NewWheel
from cpuwheels.rebuild.site.round import ATTEMPTS, Outcome, Rebuilt, outcome_table, require_all, run_round
from cpuwheels.rebuild.statement import SUFFIX
from pseudo_terminal import WIDTHS, printed
from rebuilder_sites import FIRST, MADE_UP, quiet, rebuild_statement

NAMES = [f"vllm-0.3{number}.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl" for number in (3, 2, 1)]
WHEELS = [NewWheel(name, f"{number}" * 64, "u", f"0.3{number}.0", "x86") for number, name in enumerate(NAMES, 1)]


class Maker:
    """Rebuilds at once; some wheels differ, some fail."""

    def __init__(self, **faults: Any) -> None:
        self.faults, self.made, self.backwards = faults, list[str](), False

    def in_order(self, wheels: Sequence[NewWheel], budget: Budget) -> Iterable[NewWheel]:
        del budget
        return reversed(wheels) if self.backwards else wheels

    def __call__(self, wheel: NewWheel, out: Path) -> Rebuilt:
        self.made.append(wheel.sha256[0])
        fault = self.faults.get(f"w{wheel.sha256[0]}")
        if isinstance(fault, Exception):
            raise fault
        rebuilt = MADE_UP if fault else wheel.sha256
        statement = rebuild_statement(wheel.name, wheel.sha256, rebuilt, FIRST)
        out.mkdir(parents=True)
        (out / f"{wheel.name}{SUFFIX}").write_bytes(statement.render())
        return Rebuilt(not fault, "the bytes differ in 1 place" if fault else "the bytes are the same")


def budget(**changes: Any) -> Budget:
    return Budget(**({"deadline": None, "keep_free": 10, "free": lambda: 11, "now": lambda: 0.0} | changes))


def run(root: Path, maker: Maker, limits: Budget | None = None, *, again: bool = False) -> list[Outcome]:
    with open_site(root, quiet()) as site:
        return run_round(WHEELS, site, maker, limits or budget(), quiet(), again=again)


def states(outcomes: list[Outcome]) -> list[str]:
    return [one.state for one in outcomes]


def test_what_was_rebuilt_is_not_rebuilt(tmp_path: Path) -> None:
    maker = Maker(w2="differs")
    assert states(run(tmp_path, maker)) == ["reproduced", "differs", "reproduced"]
    assert maker.made == ["1", "2", "3"]
    assert states(run(tmp_path, maker)) == ["there", "there", "there"]
    assert maker.made == ["1", "2", "3"]


def test_who_rebuilds_says_in_which_order(tmp_path: Path) -> None:
    maker = Maker(w2="differs")
    maker.backwards = True
    assert states(run(tmp_path, maker)) == ["reproduced", "differs", "reproduced"], "in the order of the index"
    assert maker.made == ["3", "2", "1"]


def test_again_keeps_what_was_there(tmp_path: Path) -> None:
    run(tmp_path, Maker())
    assert states(run(tmp_path, Maker(w1="differs"), again=True)) == ["differs", "reproduced", "reproduced"]
    with open_site(tmp_path, quiet()) as site:
        found = [one.result for one in site.listing.rebuilds if one.sha256 == WHEELS[0].sha256]
    assert sorted(found) == ["differs", "reproduced"]


FAULTS = [
    BuildFailedError(27),
    BuildFailedError(-9),
    RebuildError("it names no commit"),
    ProvenanceError("it is another's"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_wheel_does_not_end_the_run_and_is_given_up(tmp_path: Path, fault: Exception) -> None:
    maker = Maker(w1=fault)
    for _ in range(ATTEMPTS):
        assert states(run(tmp_path, maker))[0] == "failed"
    assert states(run(tmp_path, maker)) == ["given up", "there", "there"]
    assert maker.made == ["1", "2", "3", *["1"] * (ATTEMPTS - 1)]
    assert states(run(tmp_path, Maker(), again=True)) == ["reproduced"] * 3
    with open_site(tmp_path, quiet()) as site:
        assert site.listing.failed == ()


@pytest.mark.parametrize("fault", [DownloadError("no route"), BuildFailedError(DownloadError.exit_code)])
def test_what_the_network_ended_is_tried_each_time(tmp_path: Path, fault: Exception) -> None:
    for _ in range(ATTEMPTS + 2):
        assert states(run(tmp_path, Maker(w2=fault)))[1] == "failed"
    with open_site(tmp_path, quiet()) as site:
        (failed,) = site.listing.failed
    assert (failed.sha256, failed.attempts) == (WHEELS[1].sha256, 0)


@pytest.mark.parametrize(
    "fault", [DiskFullError("full"), SandboxError("none"), BuildFailedError(DiskFullError.exit_code)]
)
def test_a_machine_that_cannot_ends_the_run_and_blames_no_wheel(tmp_path: Path, fault: Exception) -> None:
    maker = Maker(w2=fault)
    assert states(run(tmp_path, maker)) == ["reproduced", "postponed", "postponed"]
    assert maker.made == ["1", "2"]
    with open_site(tmp_path, quiet()) as site:
        assert site.listing.failed == ()
    assert states(run(tmp_path, Maker())) == ["there", "reproduced", "reproduced"]


def test_nothing_is_begun_beyond_the_budget(tmp_path: Path) -> None:
    times = iter([0.0, 5.0])
    found = run(tmp_path / "a", Maker(), budget(deadline=5.0, now=lambda: next(times)))
    assert states(found) == ["reproduced", "postponed", "postponed"]
    assert found[1].reason == "the time is up"
    full = run(tmp_path / "b", Maker(), budget(free=lambda: 9))
    assert states(full) == ["postponed"] * 3
    assert full[0].reason == "too little of the disk is free"


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ({}, None),
        ({"w3": DiskFullError("full")}, PostponedError),
        ({"w1": BuildFailedError(27), "w3": DiskFullError("full")}, RebuildError),
        ({"w1": BuildFailedError(27), "w2": "differs", "w3": DiskFullError("full")}, NotReproducedError),
    ],
)
def test_the_worst_is_what_the_run_ends_with(
    tmp_path: Path, faults: dict[str, Any], error: type[CpuwheelsError] | None
) -> None:
    outcomes = run(tmp_path, Maker(**faults))
    if error is None:
        require_all(outcomes, tmp_path)
        require_all(run(tmp_path, Maker()), tmp_path)
        return
    with pytest.raises(error) as raised:
        require_all(outcomes, tmp_path)
    assert "1 wheel " in raised.value.what
    assert outcomes[0].wheel.source in raised.value.output or outcomes[2].wheel.source in raised.value.output


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_fits_a_narrow_terminal(tmp_path: Path, width: int) -> None:
    terminal = printed(outcome_table(run(tmp_path, Maker(w1=BuildFailedError(27)))).print, width)
    assert all(len(line) <= width for line in terminal.lines)
    assert "the build ended with exit code 27" in " ".join(" ".join(terminal.rows).split())
