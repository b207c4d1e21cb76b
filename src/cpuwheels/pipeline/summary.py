"""The summary of a build: the wheel, what is unusual about it, how to install it, what to do next."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from cpuwheels.config.installation import command_line
from cpuwheels.core.units import format_size
from cpuwheels.kernels.report.write import PAGE
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.wheel.install_commands import file_command

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.pipeline.built_wheel import BuiltWheel

_INDENT, _LABEL = "  ", 10


def summary_lines(
    finished: BuiltWheel, target: Target, notes: Iterable[str], *, foreign: bool, here: Path, width: int
) -> list[str]:
    """Return the summary of a build; commands and paths are never broken across lines, so that they can be copied.

    Args:
        finished: The wheel.
        target: What it is for.
        notes: What the run announced; what was announced when the wheel was made is shown as well.
        foreign: Whether this is a machine of another kind.
        here: The working folder; paths below it are relative.
        width: Columns of the terminal, for the notes.
    """
    wheel = finished.path
    facts = [("size", format_size(finished.size)), ("platform", wheel.stem.rpartition("-")[2])]
    beside = [("report", wheel.with_name(PAGE)), ("record", wheel.with_name(RECORD))]
    facts += [(name, _shown(path, here)) for name, path in beside if path.is_file()]
    lines = [f"built {wheel.name}", *(f"{_INDENT}{name:{_LABEL}}{value}" for name, value in facts)]
    for note in dict.fromkeys([*finished.notes, *notes]):
        lines += _wrapped("NOTE", note, width)
    return [*lines, *_commands(finished, target, here, foreign=foreign)]


def _commands(finished: BuiltWheel, target: Target, here: Path, *, foreign: bool) -> list[str]:
    # On macOS PyPI's torch is the CPU build.
    labelled = target.system == "Linux"
    following = {"check": "check its kernels", "serve": "serve small models from it"}
    if foreign:
        system = "macOS" if target.system == "Darwin" else target.system
        where, wheel = f"Install it on a machine with {system} {target.machine}:", finished.path.name
        del following["serve"]
        if target.root is None:  # nor can it be emulated
            following = {}
    else:
        where, wheel = "Install it:", _shown(finished.path, here)
    sessions = [f"{_INDENT}{command_line(command, target.id):21} {does}" for command, does in following.items()]
    return [where, f"{_INDENT}{file_command(wheel, labelled=labelled)}", *(["Next:", *sessions] if sessions else [])]


def _shown(path: Path, here: Path) -> str:
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=f"{_INDENT}{label:{_LABEL}}",
        subsequent_indent=" " * (_LABEL + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
