"""From two sides to a comparison; a pure function."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from cpuwheels.pipeline.comparison.result import (
    BinaryChange,
    BuildSide,
    BuildTime,
    Comparison,
    FileChange,
    InputChange,
    JobTime,
    ListChange,
    Times,
)
from cpuwheels.pipeline.comparison.side import Binary
from cpuwheels.pipeline.report.inputs import inputs_of
from cpuwheels.pipeline.report.timeline import read_timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cpuwheels.kernels.memory.ledger import JobRecord
    from cpuwheels.pipeline.comparison.side import Side
    from cpuwheels.pipeline.provenance import Provenance
    from cpuwheels.pipeline.recorded_build import BuildRecord

Value = TypeVar("Value")
_NOTHING = Binary(frozenset(), frozenset(), frozenset())


def compare(before: Side, after: Side) -> Comparison:
    """Return how two builds differ.

    Args:
        before: The older one, or the one to compare with.
        after: The other.
    """
    records = (before.record, after.record)
    made = (before.note or before.record, after.note or after.record)
    skipped: dict[str, str] = {
        f"symbols of {name}": why for side in (before, after) for name, why in sorted(side.unread.items())
    }
    lacks = "; ".join(dict.fromkeys(side.lacks for side in (before, after) if side.lacks))
    if lacks:
        skipped["times"] = lacks
    if made[0] is None or made[1] is None:
        skipped["inputs"] = "; ".join(
            f"{side.wheel.name} does not say what it is made from"
            for side, facts in zip((before, after), made, strict=True)
            if facts is None
        )
    operators = flags = times = None
    if before.operators and after.operators:
        operators = _lists(_operators(before), _operators(after))
    else:
        skipped["operators"] = lacks or "a wheel was not installed where it was built"
    if records[0] and records[1]:
        times = _times(records[0], records[1])
        flags = _flags(records[0], records[1], skipped)
    else:
        skipped["flags"] = lacks
    return Comparison(
        before=_side(before),
        after=_side(after),
        files=_files(before, after),
        binaries=_binaries(before, after),
        metadata=_lists(_metadata(before), _metadata(after)),
        operators=operators,
        inputs=_inputs(made[0], made[1]) if made[0] and made[1] else None,
        flags=flags,
        times=times,
        not_compared=dict(sorted(skipped.items())),
    )


def _side(side: Side) -> BuildSide:
    return BuildSide(
        wheel=side.wheel.name,
        sha256=side.sha256,
        size=side.size,
        unpacked=sum(member.size for member in side.members.values()),
        files=len(side.members),
        has_record=side.record is not None,
    )


def _pairs(before: Mapping[str, Value], after: Mapping[str, Value]) -> Iterable[tuple[str, Value | None, Value | None]]:
    for name in sorted(before.keys() | after.keys()):
        yield name, before.get(name), after.get(name)


def _files(before: Side, after: Side) -> tuple[FileChange, ...]:
    return tuple(
        FileChange(
            path=name,
            change="added" if old is None else "removed" if new is None else "changed",
            before=old.size if old else None,
            after=new.size if new else None,
        )
        for name, old, new in _pairs(before.members, after.members)
        if old is None or new is None or old.digest != new.digest
    )


def _binaries(before: Side, after: Side) -> tuple[BinaryChange, ...]:
    found = []
    for name, old, new in _pairs(before.binaries, after.binaries):
        one, other = old or _NOTHING, new or _NOTHING
        members = before.members.get(name), after.members.get(name)
        found.append(
            BinaryChange(
                path=name,
                same=bool(members[0] and members[1] and members[0].digest == members[1].digest),
                before=members[0].size if members[0] else None,
                after=members[1].size if members[1] else None,
                exported=(len(one.exported), len(other.exported)),
                undefined=(len(one.undefined), len(other.undefined)),
                exported_added=tuple(sorted(other.exported - one.exported)),
                exported_removed=tuple(sorted(one.exported - other.exported)),
                undefined_added=tuple(sorted(other.undefined - one.undefined)),
                undefined_removed=tuple(sorted(one.undefined - other.undefined)),
                needed_added=tuple(sorted(other.needed - one.needed)),
                needed_removed=tuple(sorted(one.needed - other.needed)),
            )
        )
    return tuple(found)


def _lists(before: Mapping[str, Iterable[str]], after: Mapping[str, Iterable[str]]) -> tuple[ListChange, ...]:
    """Return the lists that differ, each with what is new and what is gone; the order does not count."""
    found = []
    for name, old, new in _pairs(before, after):
        counted, counted_now = Counter(old or ()), Counter(new or ())
        added, removed = counted_now - counted, counted - counted_now
        if added or removed:
            found.append(ListChange(name=name, added=tuple(sorted(added)), removed=tuple(sorted(removed))))
    return tuple(found)


def _metadata(side: Side) -> dict[str, list[str]]:
    names = {name for name in side.metadata if name != "Description"}
    return {name: [str(value) for value in side.metadata.get_all(name, [])] for name in names}


def _operators(side: Side) -> dict[str, list[str]]:
    libraries = side.operators.libraries if side.operators else ()
    return {library.name: [operator.schema for operator in library.operators] for library in libraries}


def _inputs(before: Provenance, after: Provenance) -> tuple[InputChange, ...]:
    old, new = (
        {one.name: f"{one.version} {one.digest}".strip() for one in inputs_of(made)} for made in (before, after)
    )
    return tuple(InputChange(name=name, before=was, after=now) for name, was, now in _pairs(old, new) if was != now)


def _flags(before: BuildRecord, after: BuildRecord, skipped: dict[str, str]) -> tuple[ListChange, ...] | None:
    if not before.compilers or not after.compilers:
        skipped["flags"] = "the kernels of one wheel were taken from another"
        return None
    known = before.compilers.flags and after.compilers.flags
    if not known:
        skipped["flags of each library"] = "the kernels of one wheel were built before these were kept"
    old, new = (
        {
            "all files": _portable((*made.compile_flags, *made.cxx_flags)),
            "all links": _portable(made.link_flags),
            **(made.flags if known else {}),
        }
        for made in (before.compilers, after.compilers)
    )
    return _lists(old, new)


def _portable(flags: Iterable[str]) -> list[str]:
    """Return flags without those that name a folder of the building machine."""
    return [flag for flag in flags if "/" not in flag]


def _times(before: BuildRecord, after: BuildRecord) -> Times:
    old, new = _jobs(before.files), _jobs(after.files)
    jobs = [
        JobTime(
            output=name,
            before=round(was[0], 3) if was else None,
            after=round(now[0], 3) if now else None,
            cached=(bool(was and was[1]), bool(now and now[1])),
        )
        for name, was, now in _pairs(old, new)
    ]
    return Times(
        before=_total(before),
        after=_total(after),
        jobs=tuple(sorted(jobs, key=lambda job: -abs((job.after or 0) - (job.before or 0)))),
    )


def _jobs(files: Iterable[JobRecord]) -> dict[str, tuple[float, bool]]:
    """Return the CPU time of each output, all attempts together, and whether it was cached."""
    found: dict[str, tuple[float, bool]] = {}
    for bar in read_timeline(files).bars:
        spent, _ = found.get(bar.output, (0.0, False))
        found[bar.output] = (spent + bar.cpu, bar.cached)
    return found


def _total(record: BuildRecord) -> BuildTime:
    timeline = read_timeline(record.files)
    return BuildTime(
        jobs=len(timeline.bars),
        cached=sum(bar.cached for bar in timeline.bars),
        seconds=round(timeline.seconds, 2),
        cpu_seconds=round(sum(bar.cpu for bar in timeline.bars), 2),
        peak=record.memory.peak if record.memory else None,
    )
