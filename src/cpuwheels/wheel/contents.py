"""A wheel's file list held against upstream's own, every difference explained and every explanation used."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from cpuwheels.model.base import Strict, load_yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path


_OWNER = {"upstream": "upstream's", "ours": "our"}


class Explanation(Strict):
    """Why some files are in only one of the two wheels."""

    side: Literal["upstream", "ours"]
    """Which wheel has them."""
    files: Annotated[tuple[str, ...], Field(min_length=1)]
    """Patterns; ``*`` matches any characters, slashes too."""
    why: str
    """The reason, for people."""


class Explanations(Strict):
    """The explained differences to one upstream wheel."""

    upstream: str
    """File name of the wheel that the list of names was read from."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """That wheel's digest, as the index states it."""
    differences: tuple[Explanation, ...]


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
        names: Files of our wheel.
        upstream_names: Files of upstream's wheel of that version.
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
        for pattern in explanation.files
        if (index, pattern) not in used
    ]
    return faults


def _matching(name: str, side: str, explanations: Sequence[Explanation]) -> Iterator[tuple[int, str]]:
    for index, explanation in enumerate(explanations):
        if explanation.side == side:
            yield from (
                (index, pattern) for pattern in explanation.files if fnmatch.fnmatchcase(name, pattern)
            )


def _neutral(names: Collection[str]) -> set[str]:
    neutral = set()
    for name in names:
        first, slash, rest = name.partition("/")
        neutral.add(f".dist-info/{rest}" if slash and first.endswith(".dist-info") else name)
    return {name for name in neutral if not name.endswith("/")}
