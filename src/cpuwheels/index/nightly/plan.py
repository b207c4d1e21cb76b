"""What a nightly job has to do: a pure function of sources, targets and published wheels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping


@dataclass(frozen=True)
class Job:
    """One wheel.

    Attributes:
        source: Full hash of a commit, or version of a release.
        target: Target id.
        made: When the commit was made, or now: ISO 8601, UTC.
    """

    source: str
    target: str
    made: str


@dataclass(frozen=True)
class Plan:
    """What has to be done.

    Attributes:
        jobs: Wheels to be built, the newest source first.
        there: Wheels that are already published.
    """

    jobs: tuple[Job, ...]
    there: tuple[Job, ...]


def plan_jobs(sources: Mapping[str, str], targets: Iterable[str], published: Callable[[str], Collection[str]]) -> Plan:
    """Return what has to be done.

    Args:
        sources: Full hashes or versions, the newest first, with their moments.
        targets: Target ids in the order in which they are built.
        published: Returns the targets for which a source has a published wheel.
    """
    wanted = list(targets)
    jobs: list[Job] = []
    there: list[Job] = []
    for source, made in sources.items():
        known = published(source)
        for target in wanted:
            (there if target in known else jobs).append(Job(source, target, made))
    return Plan(tuple(jobs), tuple(there))
