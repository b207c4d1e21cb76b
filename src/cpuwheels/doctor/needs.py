"""What a build may have to fetch: where from, what depends on it, and what the answers mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.doctor.check import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from cpuwheels.doctor.check import Status
    from cpuwheels.doctor.network import Answer


@dataclass(frozen=True)
class Place:
    """One place to ask.

    Attributes:
        name: Folder, URL or repository.
        ask: Asks it.
    """

    name: str
    ask: Callable[[], Answer]


@dataclass(frozen=True)
class Need:
    """Something that a build may have to fetch.

    Attributes:
        name: What it is.
        purpose: What depends on it.
        stored: Whether the store has it; then no place has to answer.
        places: Where it may come from; one that answers is enough.
        step: What to do if none does.
        alternate: The fallback that is used instead.
        locked: Whether fallbacks are refused.
        certain: Whether the build is known to need it; which torch a source pins is not known before the
            source is there.
        size: Bytes that are still to be fetched; None if no lock has that.
    """

    name: str
    purpose: str
    stored: bool
    places: tuple[Place, ...]
    step: str
    alternate: Need | None = None
    locked: bool = False
    certain: bool = True
    size: int | None = None


def questions(needs: Iterable[Need]) -> dict[str, Callable[[], Answer]]:
    """Return every question that must be asked, once each."""
    found: dict[str, Callable[[], Answer]] = {}
    for need in needs:
        if not need.stored:
            found |= {place.name: place.ask for place in need.places}
            if need.alternate is not None:
                found |= questions([need.alternate])
    return found


def judge_need(need: Need, answers: Mapping[str, Answer]) -> Check:
    """Check whether something can be fetched, from what its places answered."""
    if need.stored:
        return Check(need.name, "ok", "in the store")
    bad: list[str] = []
    for place in need.places:
        answer = answers[place.name]  # which may still be on its way; places after a good one are not waited for
        if answer.good:
            return Check(need.name, "ok", f"{place.name}: {answer.detail}")
        bad.append(f"{place.name}: {answer.detail}")
    faults = "; ".join(bad) or "no place is configured"
    if need.alternate is not None and not need.locked:
        instead = judge_need(need.alternate, answers)
        if instead.status == "ok":
            detail = f"cannot be fetched ({faults}); {need.alternate.name} would be used ({instead.detail})"
            return Check(need.name, "warn", detail, need.step)
        faults = f"{faults}; {need.alternate.name}: {instead.detail}"
    if need.alternate is not None and need.locked:
        faults = f"{faults}; --locked refuses {need.alternate.name}"
    status: Status = "fail" if need.certain else "warn"
    return Check(need.name, status, f"needed for {need.purpose}: {faults}", need.step)
