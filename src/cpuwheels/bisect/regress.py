"""Which change a bisection looks for: what makes a commit bad."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.bisect.predicates import Judgement, nothing
from cpuwheels.bisect.search import Verdict
from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.bisect.predicates import Predicate
    from cpuwheels.config.options import BisectOptions
    from cpuwheels.core.console import Reporter

MEANINGS = {
    "error": "it fails",
    "success": "it succeeds",
    "crash": "it crashes",
    "slow": "it is slow",
    "wrong-token": "an answer has a wrong token",
}
"""What is true of a bad commit, by the change that is looked for."""

_ALL = tuple(MEANINGS)

_FITTING = {
    "--run": ("error", "success", "crash"),
    "--parity": ("error", "success"),
    "--bench": ("slow",),
    "--serve SCRIPT": ("error", "success", "crash"),
    "--serve MODEL": _ALL,
    "--prompt": ("error", "crash", "wrong-token"),
    "a person": _ALL,
}
"""The changes that each way to test a commit can find."""

_INVERTED = {Verdict.GOOD: Verdict.BAD, Verdict.BAD: Verdict.GOOD, Verdict.SKIP: Verdict.SKIP}


def check_regress(options: BisectOptions) -> None:
    """Refuse a change that the way to test commits cannot find.

    Raises:
        UsageError: It cannot.
    """
    way = _way(options)
    if options.regress is not None and options.regress not in _FITTING[way]:
        others = [name for name, found in _FITTING.items() if options.regress in found and name != "a person"]
        raise UsageError(
            f"{way} finds no change of the kind {options.regress!r}, only {', '.join(_FITTING[way])}",
            where="--regress",
            next_step=f"give one of these, or find it with {', '.join(others)}",
        )
    if options.slower and options.regress not in {None, "error", "slow"}:
        raise UsageError(
            f"how slow a commit is does not matter for {options.regress!r}",
            where="--slower",
            next_step="leave it out, or look for --regress slow",
        )


def _way(options: BisectOptions) -> str:
    if options.prompt is not None:
        return "--prompt"
    if options.serve:
        return "--serve SCRIPT" if Path(options.serve).is_file() else "--serve MODEL"
    return next((f"--{name}" for name in ("run", "parity", "bench") if getattr(options, name)), "a person")


@dataclass(frozen=True)
class Inverted:
    """Looks for a commit that mends what another predicate finds bad: its good is bad, and its bad is good.

    Attributes:
        predicate: The other one.
    """

    predicate: Predicate

    def __call__(
        self, wheel: Path, commit: str, folder: Path, reporter: Reporter, waiting: Callable[[], None] = nothing
    ) -> Judgement:
        """Return the opposite verdict, for the same reason."""
        found = self.predicate(wheel, commit, folder, reporter, waiting)
        return Judgement(_INVERTED[found.verdict], found.reason)
