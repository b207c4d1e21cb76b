"""What a comparison of speed found: as JSON, and as a table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.text import Text

from cpuwheels.config.installation import version_text
from cpuwheels.core.tables import Column, Table
from cpuwheels.verification.benchmark.ratio import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.verification.benchmark.compare import CaseTimes, LeftOut, OperatorSpeed
    from cpuwheels.verification.benchmark.run import Side, SpeedRequest
    from cpuwheels.verification.onednn_isa import OnednnLimit

FORMAT = 1
SPEED = "speed.json"


@dataclass(frozen=True)
class SpeedResult:
    """Everything that one comparison found.

    Attributes:
        request: What was asked.
        wheel: The wheel.
        other: What it was compared with.
        speeds: The operators, the slowest ratio first.
        left_out: What was not timed.
        machine: Name of the CPU.
        onednn: How far oneDNN may go on it; None if it finds out itself.
        sandbox: What confined the processes.
        releases: Of the oneDNN in the wheel and in the other; empty for one that does not say.
    """

    request: SpeedRequest
    wheel: Side
    other: Side
    speeds: tuple[OperatorSpeed, ...]
    left_out: tuple[LeftOut, ...]
    machine: str
    onednn: OnednnLimit | None = None
    sandbox: Mapping[str, str] = field(default_factory=dict)
    releases: tuple[str, str] = ("", "")

    @property
    def geometric_mean(self) -> float:
        """Of all operators."""
        return geometric_mean([speed.ratio.value for speed in self.speeds])

    @property
    def not_timed(self) -> dict[str, str]:
        """Operators of which no case was timed, and why."""
        timed = {speed.operator for speed in self.speeds}
        reasons: dict[str, list[str]] = {}
        for left in self.left_out:
            if left.operator not in timed and left.reason not in reasons.setdefault(left.operator, []):
                reasons[left.operator].append(left.reason)
        return {operator: "; ".join(found) for operator, found in sorted(reasons.items())}

    def slower(self, least: float) -> list[OperatorSpeed]:
        """Return the operators whose whole interval is below a ratio."""
        return [speed for speed in self.speeds if speed.ratio.high < least]

    def as_text(self) -> str:
        """Return the content of ``speed.json``."""
        return json.dumps(self._fields(), indent=1) + "\n"

    def _fields(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "project": version_text(),
            "wheel": _wheel(self.wheel, self.releases[0]),
            "against": _wheel(self.other, self.releases[1]),
            "library": self.request.library,
            "only": list(self.request.operators),
            "threads": self.request.threads,
            "rounds": self.request.rounds,
            "machine": self.machine,
            "onednn_limit": self.onednn and asdict(self.onednn),
            "sandbox": dict(self.sandbox),
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
            "geometric_mean": self.geometric_mean,
            "operators": [_operator(speed) for speed in self.speeds],
            "left_out": [asdict(left) for left in self.left_out],
        }

    def as_table(self, least: float) -> Table:
        """Return a table of the operators; red where all of the interval is below ``least``."""
        title = (
            f"{self.wheel.wheel.path.name}: {self.request.library}, times as fast as in {self.other.wheel.path.name}"
        )
        numbers = [Column(name, right=True) for name in ("cases", "speed", "95 %", "µs", "other µs")]
        table = Table((Column("operator"), *numbers), title)
        slower = self.slower(least)
        for speed in self.speeds:
            table.add_row(
                speed.operator,
                str(len(speed.cases)),
                Text(f"{speed.ratio.value:.3f}", style="red" if speed in slower else ""),
                f"{speed.ratio.low:.3f} to {speed.ratio.high:.3f}",
                f"{speed.seconds * 1e6:.1f}",
                f"{speed.against * 1e6:.1f}",
            )
        table.add_row("geometric mean", "", f"{self.geometric_mean:.3f}", "", "", "")
        return table

    def as_lines(self) -> list[str]:
        """Return what was not timed, one operator a line."""
        return [f"{operator} was not timed: {reason}" for operator, reason in self.not_timed.items()]


def _wheel(side: Side, onednn: str) -> dict[str, str]:
    return {"name": side.wheel.path.name, "sha256": side.wheel.sha256, "onednn": onednn}


def _operator(speed: OperatorSpeed) -> dict[str, Any]:
    return {
        "operator": speed.operator,
        **asdict(speed.ratio),
        "seconds": speed.seconds,
        "against": speed.against,
        "cases": _cases(speed.cases),
    }


def _cases(cases: Sequence[CaseTimes]) -> list[dict[str, Any]]:
    return [
        {
            "case": case.case,
            "ratio": median(case.ratios),
            "seconds": [float(f"{seconds:.4g}") for seconds in case.seconds],
            "against": [float(f"{seconds:.4g}") for seconds in case.against],
        }
        for case in cases
    ]
