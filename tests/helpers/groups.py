"""The groups of tests: what belongs to each, and which changes of the repository select it.

``tests/groups.toml`` lists them. A test belongs to the group with the longest path that covers it: a group may name a
folder, another one a file in it, a third one single tests of that file.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from layout import TESTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from changes import Change

DATA = TESTS / "groups.toml"


@dataclass(frozen=True)
class Group:
    """Tests that are run together, in a process of their own.

    Attributes:
        name: Its part and, after a colon, its subject: ``core``, ``full:cross``.
        about: What it tests.
        paths: Folders, files, and tests as ``file::function``; from the project's folder.
        parallel: Whether its tests are independent of each other and share no store.
        when: Patterns of files below the project's folder; ``*`` stands for any characters, slashes too.
    """

    name: str
    about: str
    paths: tuple[str, ...]
    parallel: bool = False
    when: tuple[str, ...] = ()

    @property
    def part(self) -> str:
        """What is run by one session: ``unit``, ``core``, ``wheel``, ``full`` or ``soak``."""
        return self.name.partition(":")[0]

    @property
    def report(self) -> str:
        """The file name of its JUnit report."""
        return f"{self.name.replace(':', '-')}.xml"


@dataclass(frozen=True)
class Choice:
    """Whether a change selects a group.

    Attributes:
        group: The group.
        selected: Whether it is to be run.
        why: The reason, in words.
    """

    group: Group
    selected: bool
    why: str


def load_groups(path: Path = DATA) -> tuple[Group, ...]:
    """Read the groups, in the file's order.

    Raises:
        TypeError: A group has an unknown key, or lacks one.
        ValueError: Two groups have the same path.
    """
    tables: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    groups = tuple(
        Group(name, **{key: _fixed(value) for key, value in table.items()}) for name, table in tables.items()
    )
    owners: dict[str, str] = {}
    for group in groups:
        for each in group.paths:
            if each in owners:
                raise ValueError(f"{each} belongs to {owners[each]} and to {group.name}")
            owners[each] = group.name
    return groups


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def covers(path: str, test: str) -> bool:
    """Return whether a folder, a file or a test is or holds a test or a file."""
    return test == path or test.startswith((f"{path}/", f"{path}::", f"{path}["))


def owner(groups: Iterable[Group], test: str) -> Group | None:
    """Return the group that a test or a file belongs to."""
    found = [(len(path), group) for group in groups for path in group.paths if covers(path, test)]
    return max(found, key=lambda each: each[0])[1] if found else None


def arguments(groups: Iterable[Group], group: Group) -> list[str]:
    """Return the arguments with which pytest runs exactly the tests of a group."""
    taken = [
        path
        for other in groups
        if other != group
        for path in other.paths
        if any(path != mine and covers(mine, path) for mine in group.paths)
    ]
    return [*group.paths, *(f"--deselect={path}" for path in taken)]


def select(groups: Iterable[Group], change: Change) -> list[Choice]:
    """Return for each group whether a change of the repository selects it, and why.

    A changed test file selects the group that the file as a whole belongs to. Files that nothing is known of select
    nothing, and each choice says so. A group without patterns is never selected.
    """
    groups = tuple(groups)
    return [_choice(groups, group, change) for group in groups]


def _choice(groups: tuple[Group, ...], group: Group, change: Change) -> Choice:
    if not group.when:
        return Choice(group, selected=False, why="no change selects it")
    if change.files is None:
        return Choice(group, selected=False, why=f"the change is not known: {change.against}")
    for file in sorted(change.files):
        if any(fnmatchcase(file, pattern) for pattern in group.when):
            return Choice(group, selected=True, why=f"{file} has changed")
        if owner(groups, file) is group:
            return Choice(group, selected=True, why=f"its own {file} has changed")
    return Choice(group, selected=False, why=f"nothing that it is for has changed since {change.against}")
