"""Operators that were asked for by name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection


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
        alike = get_close_matches(unknown[0], known) or known
        raise UsageError(
            f"{nobody} has {', '.join(unknown)}", where="--operator", next_step=f"choose from {', '.join(alike)}"
        )
