"""How long each step may take, how long it may be idle, and how much it may print; and when the whole run has to end.

A step is named after its log file. It is idle while it prints nothing and its processes use almost no CPU.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.errors import PostponedError, StepLimitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cpuwheels.core.supervised import Child

FACTOR_VARIABLE = "CPUWHEELS_LIMIT_FACTOR"
"""Environment variable with a number by which the seconds of every limit are multiplied."""

DEADLINE_VARIABLE = "CPUWHEELS_DEADLINE"
"""Environment variable with the monotonic time at which a nightly job has to end, for programs that it starts."""

MOST_HOURS = 48.0
"""The longest time limit that can be chosen for a command."""

_MOST_FACTOR = 1000.0
_HOUR = 3600.0
_GIB = 1 << 30
_LOOKS = 10
"""How often processes are looked at in the time for which they may be idle."""
_LONGEST_PAUSE = 10.0
_IDLE_PART = 0.005
"""Part of one CPU below which processes are idle: some wake up now and then to see that there is nothing to do."""
_LEAST_CPU_SECONDS = 0.05


@dataclass(frozen=True)
class StepLimit:
    """What a step may take.

    Attributes:
        wall: Seconds in all.
        idle: Seconds without output and without use of a CPU.
        log_bytes: Bytes of output.
    """

    wall: float
    idle: float
    log_bytes: int = _GIB


DEFAULT_LIMIT = StepLimit(wall=6 * _HOUR, idle=1 * _HOUR)

LIMITS: Mapping[str, StepLimit] = {
    # One CPU takes two hours for all kernels of x86, and emulated CPUs are twenty times slower.
    "compile": StepLimit(wall=48 * _HOUR, idle=1 * _HOUR),
    "configure": StepLimit(wall=4 * _HOUR, idle=0.5 * _HOUR),
    "metadata": StepLimit(wall=2 * _HOUR, idle=0.5 * _HOUR),
    "install-check": StepLimit(wall=4 * _HOUR, idle=0.5 * _HOUR),
    "parity": StepLimit(wall=48 * _HOUR, idle=1 * _HOUR),
    "preflight": StepLimit(wall=1 * _HOUR, idle=0.25 * _HOUR),
    "serve": StepLimit(wall=24 * _HOUR, idle=1 * _HOUR),
    # The user's own commands: they may wait for something, and have their own `--timeout`.
    "command": StepLimit(wall=MOST_HOURS * _HOUR, idle=MOST_HOURS * _HOUR),
    "serve-script": StepLimit(wall=MOST_HOURS * _HOUR, idle=MOST_HOURS * _HOUR),
}
"""The limits of steps by the beginning or the end of their names; the longest that fits counts."""


def step_limit(step: str) -> StepLimit:
    """Return what a step may take, with the factor of the environment.

    Args:
        step: Its name: its log file without the suffix.

    Raises:
        UsageError: The factor is not a number above 0.
    """
    fitting = [name for name in LIMITS if step == name or step.startswith(f"{name}-") or step.endswith(f"-{name}")]
    limit = LIMITS[max(fitting, key=len)] if fitting else DEFAULT_LIMIT
    factor = _factor(os.environ.get(FACTOR_VARIABLE, ""))
    return StepLimit(limit.wall * factor, limit.idle * factor, limit.log_bytes)


def _factor(text: str) -> float:
    if not text.strip():
        return 1.0
    try:
        factor = float(text)
    except ValueError:
        factor = -1.0
    if not 0 < factor <= _MOST_FACTOR:
        raise UsageError(
            f"{FACTOR_VARIABLE} is {text!r}, not a number above 0 and up to {_MOST_FACTOR:g}",
            where="environment",
            next_step=f"set it to a number such as 2, or unset it: {FACTOR_VARIABLE}",
        )
    return factor


@dataclass
class _Deadline:
    moment: float | None = None


def _inherited() -> float | None:
    with contextlib.suppress(KeyError, ValueError):
        return float(os.environ[DEADLINE_VARIABLE])
    return None


_DEADLINE = _Deadline(_inherited())


@contextlib.contextmanager
def finish_by(moment: float | None) -> Iterator[None]:
    """Let every step that is under way at some time end then, for as long as the block lasts.

    Args:
        moment: Monotonic time; None for none.
    """
    before = _DEADLINE.moment
    _DEADLINE.moment = min((each for each in (before, moment) if each is not None), default=None)
    try:
        yield
    finally:
        _DEADLINE.moment = before


def time_left() -> float | None:
    """Return the seconds until everything has to end; None if nothing has to."""
    return None if _DEADLINE.moment is None else _DEADLINE.moment - time.monotonic()


def deadline_environment() -> dict[str, str]:
    """Return the variables that tell another process of this program when it has to end."""
    return {} if _DEADLINE.moment is None else {DEADLINE_VARIABLE: repr(_DEADLINE.moment)}


def check_deadline(what: str) -> None:
    """Refuse to begin or to go on with something when everything has to end.

    Args:
        what: What is not begun, or is ended.

    Raises:
        PostponedError: The time is up.
    """
    left = time_left()
    if left is not None and left <= 0:
        raise PostponedError(
            f"the time is up: {what} was ended",
            where="--hours",
            next_step="the next run goes on where this one ended; allow more --hours if none gets further",
        )


class StepWatch:
    """Holds a step to its limits.

    Args:
        log: Its log file, which names it.
        limit: What it may take.
        child: Its command.
    """

    def __init__(self, log: Path, limit: StepLimit, child: Child) -> None:
        self._log, self._limit, self._child = log, limit, child
        self._began = self._active = time.monotonic()
        self._cpu = 0.0
        self._bytes = 0

    def wrote(self, count: int) -> None:
        """Take note of output.

        Raises:
            StepLimitError: It is too much.
        """
        self._active = time.monotonic()
        self._bytes += count
        if self._bytes > self._limit.log_bytes:
            raise self._error(
                f"printed more than {self._limit.log_bytes >> 20:,} MiB", "read the end of its log: it goes round"
            )

    def patience(self) -> float:
        """Return after how many seconds this is to be called again.

        Raises:
            StepLimitError: The step has taken too long, or was idle for too long.
            PostponedError: The time of the whole run is up.
        """
        now = time.monotonic()
        check_deadline(self._log.stem)
        if now - self._began >= self._limit.wall:
            raise self._error(f"did not end within {_text(self._limit.wall)}", self._longer())
        pause = min(self._limit.idle / _LOOKS, _LONGEST_PAUSE)
        if now - self._active >= pause:
            self._look(now)
            if now - self._active >= self._limit.idle:
                raise self._error(
                    f"has printed nothing and used no CPU for {_text(self._limit.idle)}",
                    f"see in its log what it waits for; {self._longer()}",
                )
        left = time_left()
        soonest = min(pause, self._limit.wall - (now - self._began))
        return soonest if left is None else min(soonest, left)

    def _look(self, now: float) -> None:
        cpu = cpu_seconds(self._child.supervisor)
        if cpu - self._cpu >= max(_LEAST_CPU_SECONDS, _IDLE_PART * (now - self._active)):
            self._cpu, self._active = cpu, now

    def _longer(self) -> str:
        return f"on a slow machine set {FACTOR_VARIABLE}=4 for limits four times as long"

    def _error(self, what: str, next_step: str) -> StepLimitError:
        return StepLimitError(
            f"step {self._log.stem} {what}; it was ended",
            where=" ".join(self._child.args[:3]),
            log=self._log,
            next_step=next_step,
        )


def cpu_seconds(root: int) -> float:
    """Return the CPU time of a process and its descendants, those that have ended included."""
    import psutil  # noqa: PLC0415  (a step that prints needs none)

    total = 0.0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(root)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += sum(each.cpu_times()[:4])
    return total


def _text(seconds: float) -> str:
    return f"{seconds / _HOUR:.3g} h" if seconds >= _HOUR else f"{seconds:.3g} s"
