"""Verdicts from elsewhere, and verdicts for elsewhere: the log that ``git bisect`` writes and replays."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.state import State
from cpuwheels.core.errors import BisectError
from cpuwheels.core.parse import LONGEST
from cpuwheels.core.plain_file import read_plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_GIT = re.compile(r"\s*git[ -]bisect (?P<verdict>good|bad|skip|old|new) (?P<commit>[0-9a-f]{40,64})\s*")
_TERMS = {"old": Verdict.GOOD, "new": Verdict.BAD}


def replayed(path: Path) -> dict[str, Verdict]:
    """Return the verdicts of another bisection's file, or of a log that ``git bisect log`` wrote.

    Raises:
        BisectError: It cannot be read, or is neither.
    """
    try:
        text = read_plain(os.path.realpath(path), LONGEST).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BisectError(
            f"the log cannot be read: {error}",
            where="--log",
            next_step="give a state.json or what git bisect log wrote",
        ) from error
    if text.lstrip().startswith("{"):
        try:
            return State.model_validate_json(text).verdicts
        except ValidationError as error:
            raise BisectError(
                f"{path.name} is no bisection's file: {str(error).splitlines()[0]}",
                where="--log",
                next_step="give the state.json of another bisection",
            ) from error
    found = {}
    for line in text.splitlines():
        if match := _GIT.fullmatch(line):
            found[match["commit"]] = _TERMS.get(match["verdict"]) or Verdict(match["verdict"])
    if not found:
        raise BisectError(
            f"{path.name} has no verdict on a commit",
            where="--log",
            next_step="give a state.json or what git bisect log wrote",
        )
    return found


def git_log(state: State, subjects: Mapping[str, str]) -> str:
    """Return the state as ``git bisect replay`` takes it."""
    ends = f"git bisect start '{state.question.bad}' '{state.question.good}'"
    lines = [ends]
    for probe in state.probes:
        lines.append(f"# {probe.verdict}: [{probe.commit}] {subjects.get(probe.commit, '')}".rstrip())
        lines.append(f"git bisect {probe.verdict} {probe.commit}")
    return "\n".join(lines) + "\n"
