"""The summary of a build: the wheel, what is unusual about it, how to install it, what to do next."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from cpuwheels.config.installation import command_line
from cpuwheels.core.places import without_places
from cpuwheels.core.units import format_size
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.pipeline.recorded_build import read_record
from cpuwheels.pipeline.report.verdicts import verdicts
from cpuwheels.pipeline.report.write import PAGE
from cpuwheels.wheel.install_commands import file_command, pip_file_command
from cpuwheels.wheel.wheel_metadata import read_metadata, required_torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.pipeline.built_wheel import BuiltWheel

_INDENT, _LABEL = "  ", 10


def summary_lines(
    finished: BuiltWheel,
    target: Target,
    notes: Iterable[str],
    *,
    foreign: bool,
    here: Path,
    width: int,
    places: Mapping[Path, str] | None = None,
) -> list[str]:
    """Return the summary of a build; commands, paths and digests are never broken, so that they can be copied.

    Args:
        finished: The wheel, with its build record next to it.
        target: What it is for.
        notes: What the run announced; what was announced when the wheel was made is shown as well.
        foreign: Whether this is a machine of another kind.
        here: The working folder; paths below it are relative.
        width: Columns of the terminal, for the notes.
        places: Folders of the run with what the build record has for each; it has the same notes without them.

    Raises:
        WheelError: The build record cannot be read.
        UnusableWheelError: The wheel cannot be read.
    """
    wheel = finished.path
    record = read_record(wheel.parent)
    torch = required_torch(read_metadata(wheel).get_all("Requires-Dist", []), wheel.name)
    lines = [f"built {wheel.name}"]
    for name, value in {
        "size": format_size(finished.size),
        "tag": ", ".join(record.wheel.tags),
        "sha256": finished.sha256,
        "torch": torch.removeprefix("==") or "any version",
        "floor": f"{finished.policy} ({', '.join(finished.versions) or 'no symbol versions'})",
        "fallbacks": "; ".join(record.alternates) or "none",
    }.items():
        lines += _fact(name, value, width)
    for verdict in verdicts(record, wheel.parent):
        words = verdict.text if verdict.state == "open" else f"{verdict.state}: {verdict.text}"
        lines += _fact(_VERDICTS[verdict.name], words, width)
    lines += [f"{_INDENT}{path.stem:{_LABEL}}{_shown(path, here)}" for path in map(wheel.with_name, (PAGE, RECORD))]
    notes = list(notes)
    whole = {without_places(note, places): note for note in notes}
    for note in dict.fromkeys([*(whole.get(note, note) for note in finished.notes), *notes]):
        lines += _fact("NOTE", note, width)
    return [*lines, *_commands(finished, target, here, foreign=foreign, labelled="+" in torch)]


_VERDICTS = {
    "Audit": "audit",
    "Install check": "loads",
    "Parity": "parity",
    "Serving": "serving",
    "Second build": "rebuilt",
}


def _commands(finished: BuiltWheel, target: Target, here: Path, *, foreign: bool, labelled: bool) -> list[str]:
    following = {"parity": "check its kernels", "serve": "serve small models from it"}
    if foreign:
        system = "macOS" if target.system == "Darwin" else target.system
        where, wheel = f"Install it on a machine with {system} {target.machine}", finished.path.name
        del following["serve"]
        if target.root is None:  # nor can it be emulated
            following = {}
    else:
        where, wheel = "Install it", _shown(finished.path, here)
    sessions = [f"{_INDENT}{command_line(command, target.id):21} {does}" for command, does in following.items()]
    return [
        f"{where}, with uv or with pip:",
        f"{_INDENT}{file_command(wheel, labelled=labelled)}",
        f"{_INDENT}{pip_file_command(wheel, labelled=labelled)}",
        *(["Next:", *sessions] if sessions else []),
    ]


def _shown(path: Path, here: Path) -> str:
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _fact(label: str, text: str, width: int) -> list[str]:
    """Return a label with its text, broken between words only; a longer word runs over."""
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=f"{_INDENT}{label:{_LABEL}}",
        subsequent_indent=" " * (_LABEL + len(_INDENT)),
        break_long_words=False,
        break_on_hyphens=False,
    )
