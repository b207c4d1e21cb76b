"""The steps of each mode, their order, and what is kept when a run is interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from buildbench.ours import Ours
from buildbench.results import (
    CAPS,
    EDIT,
    EDIT_OPEN,
    EDIT_UNSTEERED,
    NOOP,
    OPEN,
    OURS,
    PARITY_EMULATED,
    PARITY_FULL,
    PARITY_SMOKE,
    PYTHON,
    PYTHON_OPEN,
    UNCAPPED,
    UNSTEERED,
    UPSTREAM,
    Sizes,
)
from buildbench.unsteered import Unsteered
from cpuwheels.core.progress import clock
from cpuwheels.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from buildbench.results import Measured, Results
    from buildbench.setting import Setting

Mode = Literal["cold", "edit", "python", "noop", "parity", "sandbox", "sandbox-small", "upstream", "caps"]
MODES: tuple[Mode, ...] = get_args(Mode)

UNSTEERED_COST = 3.1
"""CPU seconds of the unsteered build over those of ours, for the estimate; measured for 0.32.0."""

TURNS = 3
"""How often both sides of a small change are built in turn, to see what the sandbox costs."""

_PARITY = ((PARITY_SMOKE, "smoke", False), (PARITY_FULL, "full", False), (PARITY_EMULATED, "full", True))
"""Steps of parity: their level, and whether the emulated CPU is part of it."""

_TURNS = (EDIT, EDIT_OPEN, PYTHON, PYTHON_OPEN)
_EDIT_COST, _KERNELS_COST = 0.1, 1.5
_SHORT_SECONDS = 15.0


@dataclass(frozen=True)
class Step:
    """One thing to run.

    Attributes:
        key: Where its results go.
        share: Its CPU time as a share of our cold build's; where that is not known, the run is short.
        needs: The cold builds that it needs before it.
        run: Runs it; given the log.
    """

    key: str
    share: float
    needs: tuple[str, ...]
    run: Callable[[Path], Measured]


class Bench:
    """The steps of a benchmark, and the results as they come in.

    Args:
        setting: What is built.
        results: Of an earlier run, or empty.
        kernel: C++ file that is changed.
        python: Python file that is changed.
        save: Called with the results after every step.
    """

    def __init__(
        self, setting: Setting, results: Results, *, kernel: str, python: str, save: Callable[[Results], None]
    ) -> None:
        self.results = results
        self._setting = setting
        self._save = save
        self._unsteered, self._ours = Unsteered(setting), Ours(setting, kernel, python)
        self._open = Ours(setting, kernel, python, sandboxed=False)
        self._kernel = kernel

    def run(self, modes: Sequence[Mode], caps: Sequence[str], repeat: int) -> None:
        """Run the steps that have no results yet.

        Args:
            modes: What to run; the order is always that of `MODES`.
            caps: Memory caps, as ``--memory`` takes them.
            repeat: How often each step is to have been run.

        Raises:
            CpuwheelsError: A step failed; what was measured before is saved.
        """
        todo = self.plan(modes, caps, repeat)
        self._say_what_it_takes(todo)
        for step in todo:
            for key in step.needs:
                if not self._stands(key):
                    self._take(self._cold(key))
            self._take(step)

    def plan(self, modes: Sequence[Mode], caps: Sequence[str], repeat: int) -> list[Step]:
        """Return the steps that are still to be run."""
        steps = {step.key: step for mode in MODES if mode in modes for step in self._steps(mode, modes, caps)}
        turns = _TURNS if {"sandbox", "sandbox-small"} & set(modes) else ()
        once = [step for key, step in steps.items() if key not in turns]
        todo = [step for step in once for _ in range(repeat - self._taken(step.key))]
        # A small change costs so little that both sides have to be measured in turn, and more often.
        rounds = range(repeat * TURNS)
        small = [steps[key] for number in rounds for key in turns if number >= self._taken(key)]
        return sorted([*todo, *small], key=lambda step: step.key.startswith(CAPS))  # which leave no build behind

    def _taken(self, key: str) -> int:
        """Return how often a step has been run."""
        return len(self.results.runs.get(key, []))

    def _steps(self, mode: Mode, modes: Sequence[Mode], caps: Sequence[str]) -> list[Step]:
        made: dict[Mode, Callable[[], list[Step]]] = {
            "cold": lambda: [self._cold(UNSTEERED), self._cold(OURS)],
            "edit": lambda: [Step(EDIT_UNSTEERED, _EDIT_COST, (UNSTEERED,), self._edit_unsteered), self._edit],
            "python": lambda: [self._python],
            "noop": lambda: [Step(NOOP, 0, (OURS,), self._ours.unchanged)],
            "parity": self._parity,
            "sandbox": lambda: [self._cold(OURS), self._cold(OPEN), *self._small(OPEN)],
            "sandbox-small": lambda: self._small(OURS),
            "upstream": lambda: [Step(UPSTREAM, _KERNELS_COST, (UNSTEERED, OURS), self._upstream)],
            "caps": lambda: self._capped(modes, caps),
        }
        return made[mode]()

    def _small(self, needs: str) -> list[Step]:
        """Return small changes with the sandbox and without it; what they need without it is a build of either side."""
        edit = Step(EDIT_OPEN, _EDIT_COST, (needs,), self._open.edited)
        return [self._edit, self._python, edit, Step(PYTHON_OPEN, 0, (needs,), self._open.python_changed)]

    @property
    def _edit(self) -> Step:
        return Step(EDIT, _EDIT_COST, (OURS,), self._ours.edited)

    @property
    def _python(self) -> Step:
        return Step(PYTHON, 0, (OURS,), self._ours.python_changed)

    def _capped(self, modes: Sequence[Mode], caps: Sequence[str]) -> list[Step]:
        """Return the capped builds, and one without a cap unless there is the cold one."""
        same_as_cold = "cold" in modes or OURS in self.results.runs
        keys: dict[str, str | None] = {} if same_as_cold else {UNCAPPED: None}
        keys |= {f"{CAPS}{cap}": cap for cap in caps}
        return [Step(key, 1, (), partial(self._ours.capped, cap=cap)) for key, cap in keys.items()]

    def _cold(self, key: str) -> Step:
        if key == UNSTEERED:
            return Step(key, UNSTEERED_COST, (), self._unsteered.cold)
        return Step(key, 1, (), self._side(key).cold)

    def _parity(self) -> list[Step]:
        return [
            Step(key, 0, (OURS,), partial(self._ours.parity, level=level, emulated=emulated))
            for key, level, emulated in _PARITY
        ]

    def _edit_unsteered(self, log: Path) -> Measured:
        return self._unsteered.edited(log, self._kernel)

    def _upstream(self, log: Path) -> Measured:
        out = self._setting.paths.dist / "upstream"
        measured = self._unsteered.wheel(log, self._ours.wheel(), out)
        self._setting.reporter.info(f"a wheel with upstream's modules is in {out}")
        return measured

    def _side(self, key: str) -> Ours:
        return self._open if key == OPEN else self._ours

    def _stands(self, key: str) -> bool:
        """Return whether a cold build was measured and its files are still there."""
        side = self._unsteered if key == UNSTEERED else self._side(key)
        return key in self.results.runs and side.ready()

    def _take(self, step: Step) -> None:
        number = self._taken(step.key) + 1
        log = self._setting.logs / f"{step.key.replace('/', '-')}-{number}.log"
        log.unlink(missing_ok=True)
        reporter = self._setting.reporter
        with reporter.stage(step.key, f"log: {log}"):
            measured = step.run(log)
        self.results = self._with_sizes(self.results.with_run(step.key, measured), step.key)
        self._save(self.results)
        reporter.info(
            f"{step.key}: wall {clock(measured.wall)}, {measured.cpu:.1f} CPU seconds, "
            f"peak {format_size(measured.peak)}"
        )

    def _with_sizes(self, results: Results, key: str) -> Results:
        sizes = results.sizes
        if key == UNSTEERED:
            built, stripped = self._unsteered.sizes(self._setting.logs / "strip.log")
            sizes = Sizes(unsteered=built, stripped=stripped, ours=sizes.ours, wheel=sizes.wheel)
        elif key == OURS:
            modules, wheel = self._ours.sizes()
            sizes = Sizes(unsteered=sizes.unsteered, stripped=sizes.stripped, ours=modules, wheel=wheel)
        return results.model_copy(update={"sizes": sizes})

    def _say_what_it_takes(self, todo: Sequence[Step]) -> None:
        missing = [
            self._cold(key)
            for key in dict.fromkeys(key for step in todo for key in step.needs)
            if not self._stands(key)
        ]
        planned = {step.key for step in todo}
        steps = [*todo, *(step for step in missing if step.key not in planned)]
        self._setting.reporter.info(estimate(steps, self._setting.expected_cpu(), self._setting.cpus))


def estimate(steps: Sequence[Step], ours: float, cpus: int) -> str:
    """Return about how long some steps take, for people.

    Args:
        steps: What is to be run.
        ours: CPU seconds of our cold build; 0 if nobody knows.
        cpus: Jobs at once.
    """
    counted = f"{len(steps)} run{'s' if len(steps) != 1 else ''}"
    if not steps:
        return "everything was measured before; nothing to run"
    if not ours:
        return f"{counted}; nothing says how long a build of this target takes"
    cpu = sum(step.share for step in steps) * ours
    wall = cpu / cpus + len(steps) * _SHORT_SECONDS
    unsteered = f", {UNSTEERED_COST * ours:,.0f} of them for each unsteered build"
    shown = unsteered if any(step.key == UNSTEERED for step in steps) else ""
    return (
        f"{counted}: about {cpu:,.0f} CPU seconds{shown}; about {clock(wall)} on {cpus} CPUs with nothing else running"
    )
