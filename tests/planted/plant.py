"""Plants faults in upstream's own sources: all of them at once, and the environment's PLANTED chooses one.

A file of ``faults/`` has a table for each file of upstream's, with faults by their names. A name begins with the
operators that have to find the fault. Of each fault it says

    at          where it is: upstream's text, with what is replaced in «these marks»; white space is any white space
    wrong       what stands there instead. What ends with a semicolon is a statement, the rest an expression
    which       the number of the place if there are several with that text
    libraries   kernel libraries that have the code; all that have the operators if it is left out
    amx         only a CPU with AMX gets there
"""

from __future__ import annotations

import os.path
import re
import shutil
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
HEADER = HERE / "planted.h"
PLACE = "csrc/cpu/planted.h"
"""Where the header goes."""
VARIABLE = "PLANTED"


class PlantError(Exception):
    """A fault cannot be planted."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        number: What chooses it.
        name: Its operators, and what it is.
        file: Its file in upstream's tree.
        at: Upstream's text with marks.
        wrong: What replaces the marked text.
        which: The number of the place.
        libraries: Those that have the code; all if empty.
        amx: Whether it takes AMX.
    """

    number: int
    name: str
    file: str
    at: str
    wrong: str
    which: int = 0
    libraries: tuple[str, ...] = ()
    amx: bool = False

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators whose cases have to find it."""
        return tuple(word.strip() for word in self.name.partition(":")[0].split(","))

    def span(self, text: str) -> tuple[int, int]:
        """Return the place in a file's text that is replaced.

        Raises:
            PlantError: It is not there, or not the only one.
        """
        before, marked, after = re.split("[«»]", self.at)
        pattern = _loose(before) + "(" + _loose(marked) + ")" + _loose(after)
        found = [match.span(1) for match in re.finditer(f"(?={pattern})", text)]
        if self.which > len(found) or not found or (not self.which and len(found) > 1):
            raise PlantError(f"{self.file} has {len(found)} places for {self.name!r}")
        return found[max(self.which - 1, 0)]

    def planted(self, right: str) -> str:
        """Return what replaces the right text."""
        if right.rstrip().endswith(";"):
            return f"if (planted({self.number})) {{ {self.wrong} }} else {{ {right} }}"
        return f"(planted({self.number}) ? ({self.wrong}) : ({right}))"


def _loose(text: str) -> str:
    """Return a pattern for a text in which white space is any."""
    words = [re.escape(word) for word in text.split()]
    start, end = (r"\s*" if text[:1].isspace() else ""), (r"\s*" if text[-1:].isspace() and words else "")
    return start + r"\s+".join(words) + end


@cache
def all_faults() -> tuple[Fault, ...]:
    """Read the faults, in the order of their numbers."""
    entries = [
        (name, file, entry)
        for path in sorted((HERE / "faults").glob("*.toml"))
        for file, faults in tomllib.loads(path.read_text("utf-8")).items()
        for name, entry in faults.items()
    ]
    return tuple(
        Fault(
            number, name, file, **{key: tuple(value) if key == "libraries" else value for key, value in entry.items()}
        )
        for number, (name, file, entry) in enumerate(entries, start=1)
    )


def plant(tree: Path, faults: Sequence[Fault]) -> None:
    """Plant faults in a writable tree of upstream's.

    Raises:
        PlantError: There is no place for one, or two are in the same place.
    """
    by_file: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        by_file[fault.file].append(fault)
    for file, of_file in by_file.items():
        path = tree / file
        text = path.read_text("utf-8")
        spans = sorted((*fault.span(text), fault) for fault in of_file)
        for (_, end, first), (start, _, second) in pairwise(spans):
            if start < end:
                raise PlantError(f"{first.name!r} and {second.name!r} are in one place")
        for start, end, fault in reversed(spans):
            text = text[:start] + fault.planted(text[start:end]) + text[end:]
        header = os.path.relpath(PLACE, Path(file).parent)
        path.unlink()  # it may be a second name of a file that is kept
        path.write_text(f'#include "{header}"\n{text}', "utf-8")
    shutil.copy(HEADER, tree / PLACE)
