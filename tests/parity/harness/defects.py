"""Faults of upstream's kernels that are known: ``defects.toml``.

Their cases run. They are expected to fail on kernels that have the fault: upstream's own, and those of a build whose
patches do not fix it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness.case import Case
from harness.cpu import has_any

PLACE = Path(__file__).parent.parent / "defects.toml"
_SETTINGS = {"cases", "libraries", "with", "without", "versions", "onednn", "symptom", "reason"}


class DefectsError(Exception):
    """defects.toml has an entry that says nothing."""


@dataclass(frozen=True)
class Build:
    """What a wheel says of its kernels.

    Attributes:
        version: vLLM's; empty if it is not known.
        fixed: Names of the faults that they do not have.
        onednn: Release of the oneDNN in them; empty if it is not known.
    """

    version: str = ""
    fixed: frozenset[str] = frozenset()
    onednn: str = ""


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
        versions: Versions of vLLM that have it, as a PEP 440 range; development versions count as their release.
        onednn: Releases of oneDNN that have it, likewise, if it is oneDNN's; a wheel that does not say has it not.
        symptom: Regular expression that is found in each problem of such a case; another problem is another fault.
    """

    name: str
    cases: tuple[str, ...]
    libraries: tuple[str, ...]
    needs: tuple[str, ...]
    without: tuple[str, ...]
    reason: str
    versions: SpecifierSet
    onednn: SpecifierSet | None
    symptom: re.Pattern[str]

    def shows_in(self, case: str, library: str, build: Build = Build()) -> bool:
        """Return whether a case fails on a library because of it."""
        if self.name in build.fixed or not (_any(library, self.libraries) and _any(case, self.cases)):
            return False
        if build.version and Version(build.version).base_version not in self.versions:
            return False
        if self.onednn is not None and not (build.onednn and build.onednn in self.onednn):
            return False
        return all(has_any([feature]) for feature in self.needs) and not has_any(self.without)

    def explains(self, problems: Sequence[str]) -> bool:
        """Return whether all that is wrong with a case is what it does."""
        return all(self.symptom.search(problem) for problem in problems)


def known_defect(case: Case, library: str, build: Build = Build(), problems: Sequence[str] = ()) -> Defect | None:
    """Return the fault that a case is known to show on a library, if it explains what is wrong.

    Args:
        case: The case.
        library: Its name.
        build: What its wheel says.
        problems: What is wrong with the case.
    """
    here = (defect for defect in defects() if defect.shows_in(case.name, library, build))
    return next((defect for defect in here if defect.explains(problems)), None)


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
    if not entry.get("cases") or not entry.get("reason", "").strip() or not entry.get("symptom"):
        raise DefectsError(f"defects.toml: {name} needs cases, a symptom and a reason")
    return Defect(
        name,
        tuple(entry["cases"]),
        tuple(entry.get("libraries", ["*"])),
        tuple(entry.get("with", ())),
        tuple(entry.get("without", ())),
        entry["reason"].strip(),
        SpecifierSet(entry.get("versions", "")),
        SpecifierSet(entry["onednn"]) if "onednn" in entry else None,
        re.compile(entry["symptom"]),
    )


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(_literal(name), _literal(pattern)) for pattern in patterns)


def _literal(text: str) -> str:
    """Brackets are part of a case's name, and no set of characters."""
    return text.replace("[", "(").replace("]", ")")
