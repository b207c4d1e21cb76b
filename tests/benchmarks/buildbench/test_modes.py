"""What is run in which mode, with sides that only note what they are asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from buildbench import modes
from buildbench.modes import MODES, TURNS, Bench, estimate
from buildbench.results import (
    EDIT,
    EDIT_OPEN,
    EDIT_UNSTEERED,
    NOOP,
    OPEN,
    OURS,
    PYTHON,
    PYTHON_OPEN,
    UNSTEERED,
    UPSTREAM,
    Measured,
    Results,
)

from bench_results import GIB, results, run
from cpuwheels.core.errors import CommandError


class Side:
    """Either side: cold builds leave something that stands, capped ones remove it."""

    def __init__(self, name: str, done: list[str]) -> None:
        self.name, self.done, self.stands = name, done, False

    def _take(self, what: str) -> Measured:
        self.done.append(f"{what} {self.name}")
        return run(cap=4 * GIB)

    def ready(self) -> bool:
        return self.stands

    def cold(self, _log: Path) -> Measured:
        self.stands = True
        return self._take("cold")

    def capped(self, _log: Path, cap: str | None) -> Measured:
        self.stands = False
        return self._take(f"cap {cap}")

    def edited(self, _log: Path, *_: str) -> Measured:
        return self._take("edit")

    def python_changed(self, _log: Path) -> Measured:
        return self._take("python")

    def unchanged(self, _log: Path) -> Measured:
        return self._take("noop")

    def parity(self, _log: Path, level: str, *, emulated: bool) -> Measured:
        return self._take(f"parity {level}{', emulated' if emulated else ''}")

    def wheel(self, *given: Path) -> object:
        return self._take(f"wheel {given[1:]}") if given else "ours.whl"

    def sizes(self, *_: Path) -> tuple[dict[str, int], object]:
        return {"_C": 2}, 3 if self.name == "ours" else {"_C": 1}


SMALL = ["edit ours", "edit unsandboxed", "python ours", "python unsandboxed"]
"""The small changes in one turn."""


class Trial:
    """A benchmark with such sides."""

    def __init__(self, tmp: Path, reporter: object, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.saved: list[Results] = []
        self.sides = {name: Side(name, self.done) for name in ("unsteered", "ours", "unsandboxed")}
        monkeypatch.setattr(modes, "Unsteered", lambda _: self.sides["unsteered"])
        monkeypatch.setattr(
            modes, "Ours", lambda *_, sandboxed=True: self.sides["ours" if sandboxed else "unsandboxed"]
        )
        self.setting = SimpleNamespace(
            logs=tmp, reporter=reporter, cpus=2, expected_cpu=lambda: 2300.0, paths=SimpleNamespace(dist=tmp / "dist")
        )

    def bench(self, before: Results | None = None) -> Bench:
        return Bench(self.setting, before or results(), kernel="a.cpp", python="a.py", save=self.saved.append)


@pytest.fixture
def trial(tmp_path: Path, reporter: object, monkeypatch: pytest.MonkeyPatch) -> Trial:
    return Trial(tmp_path, reporter, monkeypatch)


def test_everything_in_order_and_saved_after_each_step(trial: Trial) -> None:
    bench = trial.bench()
    bench.run(MODES, ["4G", "8G"], 1)
    assert trial.done == [
        "cold unsteered",
        "cold ours",
        "edit unsteered",
        "noop ours",
        "parity smoke ours",
        "parity full ours",
        "parity full, emulated ours",
        "cold unsandboxed",
        f"wheel ('ours.whl', {trial.setting.paths.dist / 'upstream'!r}) unsteered",
        *SMALL * TURNS,
        "cap 4G ours",
        "cap 8G ours",
    ]
    assert len(trial.saved) == len(trial.done)
    assert len(trial.saved[-1].runs) == 15
    assert bench.results.sizes.model_dump() == {
        "unsteered": {"_C": 2},
        "stripped": {"_C": 1},
        "ours": {"_C": 2},
        "wheel": 3,
    }


def test_the_sandbox_is_measured_on_three_builds_with_and_without(trial: Trial) -> None:
    bench = trial.bench()
    bench.run(["sandbox"], [], 1)
    assert trial.done == ["cold ours", "cold unsandboxed", *SMALL * TURNS]
    assert set(bench.results.runs) == {OURS, EDIT, PYTHON, OPEN, EDIT_OPEN, PYTHON_OPEN}


def test_small_changes_alone_need_one_build_of_either_side(trial: Trial) -> None:
    trial.sides["unsandboxed"].stands = True  # as both sides have the same stores
    bench = trial.bench()
    bench.run(["sandbox-small"], [], 1)
    assert trial.done == ["cold ours", *SMALL * TURNS]
    assert set(bench.results.runs) == {OURS, EDIT, PYTHON, EDIT_OPEN, PYTHON_OPEN}


def test_small_changes_that_were_measured_before_are_not_built_again(trial: Trial) -> None:
    for side in trial.sides.values():
        side.stands = True
    before = results()
    for key in (OURS, OPEN, EDIT, PYTHON, PYTHON):
        before = before.with_run(key, run())
    trial.bench(before).run(["sandbox"], [], 1)
    assert trial.done == ["edit unsandboxed", "python unsandboxed", *SMALL[:2], "python unsandboxed", *SMALL]


def test_modes_run_in_their_own_order(trial: Trial) -> None:
    trial.bench().run(["noop", "cold"], [], 1)
    assert trial.done == ["cold unsteered", "cold ours", "noop ours"]


def test_a_mode_brings_the_cold_build_that_it_needs(trial: Trial) -> None:
    bench = trial.bench()
    bench.run(["python"], [], 1)
    assert trial.done == ["cold ours", "python ours"]
    assert set(bench.results.runs) == {OURS, PYTHON}


def test_a_wheel_of_upstreams_modules_needs_both_cold_builds(trial: Trial) -> None:
    trial.sides["unsteered"].stands = True
    bench = trial.bench(results(unsteered=run()))
    bench.run(["upstream"], [], 1)
    assert [done.partition(" (")[0] for done in trial.done] == ["cold ours", "wheel"]
    assert list(bench.results.runs) == [UNSTEERED, OURS, UPSTREAM]


def test_what_an_earlier_run_left_is_used(trial: Trial) -> None:
    trial.sides["ours"].stands = True
    trial.bench(results(ours=run(), python=run())).run(["python", "noop"], [], 1)
    assert trial.done == ["noop ours"]


def test_results_alone_are_not_enough_where_the_build_is_gone(trial: Trial) -> None:
    trial.bench(results(ours=run())).run(["noop"], [], 1)
    assert trial.done == ["cold ours", "noop ours"]


def test_a_build_that_was_not_measured_is_not_built_upon(trial: Trial) -> None:
    trial.sides["ours"].stands = True
    trial.bench().run(["noop"], [], 1)
    assert trial.done == ["cold ours", "noop ours"]


def test_repetitions_count_those_that_are_there(trial: Trial) -> None:
    trial.sides["ours"].stands = True
    bench = trial.bench(results(ours=run(), noop=run()))
    bench.run(["noop"], [], 3)
    assert trial.done == ["noop ours"] * 2
    assert len(bench.results.runs[NOOP]) == 3


def test_caps_alone_bring_a_build_without_a_cap(trial: Trial) -> None:
    trial.bench().run(["caps"], ["4G"], 1)
    assert trial.done == ["cap None ours", "cap 4G ours"]


def test_caps_are_held_against_the_cold_build_if_there_is_one(trial: Trial) -> None:
    bench = trial.bench(results(ours=run()))
    bench.run(["caps"], ["4G"], 1)
    assert list(bench.results.runs) == [OURS, "caps/4G"]


def test_a_step_that_fails_leaves_the_results_before_it(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_log: Path) -> Measured:
        raise CommandError("ninja failed")

    monkeypatch.setattr(trial.sides["ours"], "cold", fail)
    with pytest.raises(CommandError):
        trial.bench().run(["cold"], [], 1)
    assert [list(found.runs) for found in trial.saved] == [[UNSTEERED]]


def test_the_log_of_a_step_starts_anew(trial: Trial, tmp_path: Path) -> None:
    log = tmp_path / "cold-ours-1.log"
    log.write_text("of yesterday")
    trial.bench().run(["cold"], [], 1)
    assert not log.exists()


def test_how_long_it_takes_is_said_before(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("buildbench.modes.UNSTEERED_COST", 2.7)
    bench = trial.bench()
    steps = bench.plan(["cold"], [], 1)
    assert estimate(steps, 2300, 2) == (
        "2 runs: about 8,510 CPU seconds, 6,210 of them for each unsteered build; about 1:11:25 on 2 CPUs with "
        "nothing else running"
    )
    assert estimate([], 2300, 2) == "everything was measured before; nothing to run"
    assert "nothing says how long" in estimate(steps[:1], 0, 2)
    edit = bench.plan(["edit"], [], 1)
    assert [step.key for step in edit] == [EDIT_UNSTEERED, EDIT]
    assert estimate(edit, 2300, 2).startswith("2 runs: about 460 CPU seconds; about ")
