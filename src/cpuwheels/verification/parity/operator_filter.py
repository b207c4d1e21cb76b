"""Operators that were asked for by name."""

from __future__ import annotations

import re
import zipfile
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cpuwheels.core.errors import UsageError
from cpuwheels.core.text import first_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cpuwheels.wheel.kernel_wheel import KernelWheel

_SCHEMA = re.compile(rb"([a-z_][a-z0-9_]{0,200})\([^()\0]{0,4000}(?:\(\)[^()\0]{0,400})*\) ?->")
"""An operator in a library: a schema such as ``silu(Tensor! out, Tensor input) -> ()``."""
_NAMED = 8
"""Operators that a message names at most."""


def require_in_libraries(asked: Collection[str], wheels: Iterable[KernelWheel], nobody: str) -> None:
    """Check, before anything is installed, that libraries of wheels have the names of operators in them.

    A name that is there need not be an operator's; `require_operators` says that after the library is loaded.

    Args:
        asked: Names of operators.
        wheels: One of them has to have each.
        nobody: What has none but the names that are there, as the subject of a sentence.

    Raises:
        UsageError: A name is in none; it names those like it.
    """
    missing, known = set(asked), set[str]()
    for wheel in wheels if asked else ():
        with zipfile.ZipFile(wheel.path) as archive:
            for library in wheel.libraries.values():
                content = archive.read(library)
                missing -= {name for name in missing if name.encode() in content}
                known |= {name.decode() for name in _SCHEMA.findall(content)}
    require_operators(missing, known, nobody)


def require_operators(asked: Collection[str], there: Collection[str], nobody: str) -> None:
    """Check that all that were asked for are there.

    Args:
        asked: Names of operators.
        there: Names of the available ones.
        nobody: What has none but those, as the subject of a sentence.

    Raises:
        UsageError: Some are not; it names those like them.
    """
    known, unknown = sorted(set(there)), sorted(set(asked) - set(there))
    if unknown:
        alike = get_close_matches(unknown[0], known)
        if alike:
            step = f"did you mean {', '.join(alike)}?"
        else:
            step = f"choose from {first_names(known, _NAMED)}" if known else "see parity.json of another run"
        raise UsageError(f"{nobody} has {', '.join(unknown)}", where="--operator", next_step=step)
