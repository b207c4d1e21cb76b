"""What a vLLM source itself pins: its torch, its oneDNN and its Arm Compute Library."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from cpuwheels.core.errors import UnsuitableSourceError
from cpuwheels.core.plain_file import read_plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_DECLARE = re.compile(r"FetchContent_Declare\s*\(\s*oneDNN\b", re.IGNORECASE)
_POPULATE = re.compile(r"FetchContent_Populate\s*\(\s*arm_compute\b", re.IGNORECASE)
_END = re.compile(r"^[ \t]*\)", re.MULTILINE)
_LONGEST, _LONGEST_LINE = 4 << 20, 4096
_TAG = re.compile(r"\bGIT_TAG\s+(?P<tag>\S+)")


@dataclass(frozen=True)
class SourcePins:
    """The versions a source must be built with.

    Attributes:
        torch: Version without a local label.
        onednn: GIT_TAGs that the source's CMake names, in the order of the file. Which of them is used
            depends on the processor; the steering checks the choice when CMake asks for it.
        acl: Likewise for Arm Compute Library, which only some processors use.
    """

    torch: str
    onednn: tuple[str, ...]
    acl: tuple[str, ...] = ()


def read_pins(folder: Path, markers: Mapping[str, str]) -> SourcePins:
    """Read the pins of a vLLM tree.

    Args:
        folder: The tree.
        markers: PEP 508 environment of the target, such as ``platform_machine``.

    Raises:
        UnsuitableSourceError: A file is missing or names no pin.
    """
    requirements = folder / "requirements" / "cpu.txt"
    torch = _torch_pin(_read(requirements), markers)
    if torch is None:
        raise UnsuitableSourceError(
            f"the source pins no torch for {markers.get('platform_machine')}",
            where=requirements,
            next_step="give a source whose requirements/cpu.txt has torch==<version> for this target",
        )
    extension = _read(folder / "cmake" / "cpu_extension.cmake")
    return SourcePins(torch, _tags(_DECLARE, extension), _tags(_POPULATE, extension))


def _tags(fetched: re.Pattern[str], text: str) -> tuple[str, ...]:
    found, place = [], 0
    # From call to call, so that a text without an end is read once and not once for each call.
    while (call := fetched.search(text, place)) and (end := _END.search(text, call.end())):
        if match := _TAG.search(text, call.end(), end.start()):
            found.append(match["tag"])
        place = end.end()
    return tuple(dict.fromkeys(found))


def _torch_pin(text: str, markers: Mapping[str, str]) -> str | None:
    for line in text.splitlines():
        if len(line) > _LONGEST_LINE:
            continue
        try:
            requirement = Requirement(line.split(" #")[0].strip())
            if requirement.name != "torch" or not (
                requirement.marker is None or requirement.marker.evaluate({**markers})
            ):
                continue
            exact = [
                spec.version for spec in requirement.specifier if spec.operator == "==" and "*" not in spec.version
            ]
            if exact:
                return Version(exact[0]).public
        except ValueError:
            continue  # comments, options and includes; markers that this environment does not have
    return None


def _read(path: Path) -> str:
    try:
        return read_plain(os.path.realpath(path), _LONGEST).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UnsuitableSourceError(
            f"cannot read {path.name} of the source: {why}", where=path, next_step="give a whole vLLM source"
        ) from error
