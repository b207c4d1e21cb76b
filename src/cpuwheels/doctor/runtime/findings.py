"""One finding of the doctor of a server, and what the findings mean together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cpuwheels.core.models import Strict

if TYPE_CHECKING:
    from collections.abc import Iterable

Status = Literal["ok", "info", "advice", "fail"]
Group = Literal["Machine", "vLLM", "Kernels", "Model"]
Verdict = Literal["well", "works", "fails"]

EXIT_CODES: dict[Verdict, int] = {"well": 0, "works": 3, "fails": 1}


class Finding(Strict):
    """One thing that was looked at."""

    group: Group
    name: str
    status: Status
    """``fail``: vLLM will not serve; ``advice``: it will, but something can be better; ``info`` changes nothing."""
    detail: str
    next_step: str = ""
    """What the reader can do about it; empty when there is nothing to do."""


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """Return what findings mean together."""
    found = {finding.status for finding in findings}
    if "fail" in found:
        return "fails"
    return "works" if "advice" in found else "well"
