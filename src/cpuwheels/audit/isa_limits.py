"""Which instructions the files of a wheel may hold, as the matrix declares it."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cpuwheels.config.matrix import Target
    from cpuwheels.source.acl import Acl

_SHARED = "libcpuwheels_"
"""The beginning of the names of libraries that a wheel's modules share (cmake/steer/shared.cmake)."""


@dataclass(frozen=True)
class Limit:
    """What some files of a wheel may hold.

    Attributes:
        module: Name of an extension module, wildcards allowed; empty for every file that no other limit is for.
        march: Architecture as the assembler's ``-march`` names it.
        guarded: Code that is used only after asking the CPU: functions, or ``module:mnemonic`` where stripping has
            taken the functions' names; wildcards allowed.
        expected: Mnemonics that each of these files has to hold; wildcards allowed.
        untried: Kernels that no CPU has run yet, each with its mnemonics, which these files may hold.
    """

    module: str
    march: str
    guarded: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    untried: tuple[tuple[str, tuple[str, ...]], ...] = ()


def limits_of(target: Target, acl: Acl | None = None, *, whole: bool = False) -> tuple[Limit, ...]:
    """Return what each file of a target's wheel may hold; nothing where the matrix names no architecture.

    A file that is not one of the libraries (a bundled one, or one that the libraries share) has the limit of the lowest
    library, which uses it too; the chooser is loaded on every machine. Only a file that holds Arm Compute Library may
    have the instructions that Arm Compute Library chooses from.

    Args:
        target: The target.
        acl: Arm Compute Library in this build, if there was any.
        whole: Whether the libraries have to have all kernels that the matrix expects: a release's have them.
    """
    found = [
        Limit(
            library.name,
            library.march,
            library.guarded,
            library.expected if whole else (),
            tuple((kernels.name, kernels.instructions) for kernels in library.untried),
        )
        for library in target.libraries
        if library.march
    ]
    if found and target.chooser and target.baseline:
        found.append(Limit(target.chooser, target.baseline))
    if found and acl and acl.commit and acl.march:
        found.append(Limit(f"{_SHARED}*", acl.march))
    lowest = target.libraries[-1]
    if lowest.march:
        found.append(Limit("", lowest.march, lowest.guarded))
    return tuple(found)


def limit_for(file: str, limits: Iterable[Limit]) -> Limit | None:
    """Return the limit of a file of a wheel, given by its path."""
    fitting = (limit for limit in limits if not limit.module or fnmatch.fnmatchcase(module_of(file), limit.module))
    return max(fitting, key=lambda limit: len(limit.module), default=None)


def module_of(file: str) -> str:
    """Return the name by which limits know a file of a wheel."""
    return file.rpartition("/")[2].partition(".")[0]
