"""A wheel's files and metadata held against upstream's own: differences explained, explanations used."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Annotated, Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import Field

from cpuwheels.core.models import Strict, load_yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from cpuwheels.wheel.core_metadata import Project


_OWNER = {"upstream": "upstream's", "ours": "our"}


class Explanation(Strict):
    """Why some names are in only one of the two wheels."""

    side: Literal["upstream", "ours"]
    """Which wheel has them."""
    names: Annotated[tuple[str, ...], Field(min_length=1)]
    """Patterns; ``*`` matches any characters, slashes too."""
    why: str
    """The reason, for people."""


class Explanations(Strict):
    """The explained differences to one upstream wheel."""

    upstream: str
    """File name of the wheel that the list of names was read from."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """That wheel's digest, as the index states it."""
    files: tuple[Explanation, ...]
    """Differences between the lists of files."""
    metadata: tuple[Explanation, ...]
    """Differences between the metadata, as `metadata_names` writes it."""


def load_explanations(path: Path) -> Explanations:
    """Read a file of explained differences.

    Raises:
        MatrixError: It does not fit the model.
    """
    return load_yaml(path, Explanations)


def compare_contents(
    names: Collection[str], upstream_names: Collection[str], explanations: Sequence[Explanation]
) -> list[str]:
    """Return every unexplained difference and every unused explanation.

    The version in ``.dist-info`` differs by its local label, so those folders are compared under one name.

    Args:
        names: Files, or metadata names, of our wheel.
        upstream_names: Those of upstream's wheel of that version.
        explanations: What may differ.
    """
    ours, theirs = _neutral(names), _neutral(upstream_names)
    used: set[tuple[int, str]] = set()
    faults: list[str] = []
    for side, only in (("upstream", theirs - ours), ("ours", ours - theirs)):
        for name in sorted(only):
            matching = set(_matching(name, side, explanations))
            used |= matching
            if not matching:
                faults.append(f"{name} is only in {_OWNER[side]} wheel")
    faults += [
        f"explanation {pattern!r} ({explanation.why}) explains nothing"
        for index, explanation in enumerate(explanations)
        for pattern in explanation.names
        if (index, pattern) not in used
    ]
    return faults


def metadata_names(project: Project) -> list[str]:
    """Return what a wheel declares as path-like names, without the versions that differ per device."""
    names = [f"requires/{_distribution(line)}" for line in project.requirements]
    for extra, lines in project.extras:
        names += [f"extras/{extra}", *(f"extras/{extra}/{_distribution(line)}" for line in lines)]
    for group, pairs in project.entry_points:
        names += [f"entry-points/{group}/{name}" for name, _ in pairs]
    names += [f"urls/{label}" for label, _ in project.urls]
    names += [f"classifiers/{classifier}" for classifier in project.classifiers]
    names += [f"license-files/{name}" for name in project.license_files]
    names += [f"license/{project.license_expression}", f"python/{project.requires_python}", f"name/{project.name}"]
    return sorted(set(names))


def _distribution(line: str) -> str:
    return canonicalize_name(Requirement(line).name)


def _matching(name: str, side: str, explanations: Sequence[Explanation]) -> Iterator[tuple[int, str]]:
    for index, explanation in enumerate(explanations):
        if explanation.side == side:
            yield from ((index, pattern) for pattern in explanation.names if fnmatch.fnmatchcase(name, pattern))


def _neutral(names: Collection[str]) -> set[str]:
    neutral = set()
    for name in names:
        first, slash, rest = name.partition("/")
        neutral.add(f".dist-info/{rest}" if slash and first.endswith(".dist-info") else name)
    return {name for name in neutral if not name.endswith("/")}
