"""Whose turn it is: one target's wheel is built a second time each night, the one that waited longest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError

from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import Moment, Strict
from cpuwheels.core.plain_file import read_plain
from cpuwheels.index.entry import Target, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

FILE = "second-builds.json"
"""In the job's own folder."""

_LARGEST = 1 << 16


class Turns(Strict):
    """When each target last had its turn."""

    format: Literal[1] = 1
    last: dict[Target, Moment] = Field(default_factory=dict)


def whose_turn(folder: Path, targets: Iterable[str]) -> str | None:
    """Return the target that waited longest, of equal ones the first; None if there are none.

    Args:
        folder: The job's own.
        targets: Those of which a wheel is made this night.
    """
    last = _read(folder).last
    return min(dict.fromkeys(targets), key=lambda target: last.get(target, ""), default=None)


def take_turn(folder: Path, target: str, now: datetime) -> None:
    """Note that a target has its turn; the next one comes after the others, whatever comes of this one.

    Raises:
        StoreError: It cannot be written.
    """
    turns = Turns(last=_read(folder).last | {target: stamp(now)})
    with storage_errors(folder):
        write_atomic(folder / FILE, turns.model_dump_json(indent=1) + "\n")


def _read(folder: Path) -> Turns:
    try:
        return Turns.model_validate_json(read_plain(folder / FILE, _LARGEST))
    except (OSError, ValidationError):
        return Turns()  # who waited longest is then not known, and all begin anew
