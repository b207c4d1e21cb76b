"""Faults of upstream's kernels that are known: ``defects.toml``.

Their cases run. They are expected to fail on kernels that have the fault: upstream's own, and those of a build whose
patches do not mend it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from harness.case import Case
from harness.cpu import has_any

PLACE = Path(__file__).parent.parent / "defects.toml"
_SETTINGS = {"cases", "libraries", "with", "without", "reason"}


class DefectsError(Exception):
    """defects.toml has an entry that says nothing."""


@dataclass(frozen=True)
class Defect:
    """One known fault.

    Attributes:
        name: Its heading in docs/findings.md.
        cases: Patterns of names of cases that show it and nothing else.
        libraries: Patterns of names of libraries that have it.
        needs: CPU features by PyTorch's names; only a CPU with all of them shows it. ``with`` in the file.
        without: CPU features by PyTorch's names; a CPU with any of them does not show it.
        reason: What is wrong.
    """

    name: str
    cases: tuple[str, ...]
    libraries: tuple[str, ...]
    needs: tuple[str, ...]
    without: tuple[str, ...]
    reason: str

    def shows_in(self, case: str, library: str) -> bool:
        """Return whether a case fails on a library because of it."""
        if not (_any(library, self.libraries) and _any(case, self.cases)):
            return False
        return all(has_any([feature]) for feature in self.needs) and not has_any(self.without)


def known_defect(case: Case, library: str, mended: Collection[str] = ()) -> Defect | None:
    """Return the fault that a case is known to show on a library.

    Args:
        case: The case.
        library: Its name.
        mended: Names of the faults that the library does not have, as its wheel says.
    """
    here = (defect for defect in defects() if defect.name not in mended)
    return next((defect for defect in here if defect.shows_in(case.name, library)), None)


@cache
def defects() -> tuple[Defect, ...]:
    """Read them all.

    Raises:
        DefectsError: An entry lacks its cases or its reason.
    """
    with PLACE.open("rb") as stream:
        return tuple(_defect(name, entry) for name, entry in tomllib.load(stream).items())


def _defect(name: str, entry: Mapping[str, Any]) -> Defect:
    if unknown := set(entry) - _SETTINGS:
        raise DefectsError(f"defects.toml: {name}: unknown {', '.join(sorted(unknown))}")
    if not entry.get("cases") or not entry.get("reason", "").strip():
        raise DefectsError(f"defects.toml: {name} needs cases and a reason")
    return Defect(
        name,
        tuple(entry["cases"]),
        tuple(entry.get("libraries", ["*"])),
        tuple(entry.get("with", ())),
        tuple(entry.get("without", ())),
        entry["reason"].strip(),
    )


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(_literal(name), _literal(pattern)) for pattern in patterns)


def _literal(text: str) -> str:
    """Brackets are part of a case's name, and no set of characters."""
    return text.replace("[", "(").replace("]", ")")
