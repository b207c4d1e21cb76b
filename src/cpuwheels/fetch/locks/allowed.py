"""The packages that may be of any age: names that no lock has are refused, since a fix would be left out silently."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.core.errors import UsageError
from cpuwheels.core.models import load_yaml
from cpuwheels.fetch.locks.python_locks import LOCKS, pins

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

OPTION = "--allow"


def locked_names(root: Path, *, python: bool, debian: bool) -> set[str]:
    """Return the names of the packages that the locks of a project have.

    Args:
        root: The project's folder, or a copy of it.
        python: Whether the locks of Python packages count.
        debian: Whether those of Debian packages do.
    """
    found: set[str] = set()
    for name in LOCKS if python else ():
        lock = root / "locks" / f"{name}.txt"
        found |= pins(lock.read_text(encoding="utf-8")).keys() if lock.is_file() else set()
    for path in (root / "locks").glob("*.yaml") if debian else ():
        found |= {package.name for package in load_yaml(path, DebianLock).packages}
    return found


def unmatched(allowed: Iterable[str], names: Collection[str]) -> dict[str, list[str]]:
    """Return those of some names that no package has, with the names that are nearest to each.

    Args:
        allowed: The names. Python's may be written in any way that its index takes.
        names: Of the packages.
    """
    unknown = [name for name in allowed if name not in names and canonicalize_name(name) not in names]
    return {name: get_close_matches(canonicalize_name(name), sorted(names)) for name in unknown}


def require_matched(allowed: Iterable[str], names: Collection[str]) -> None:
    """Refuse names that no package has.

    Args:
        allowed: The names.
        names: Of the packages, before and now: a fix may require a package that no lock had.

    Raises:
        UsageError: One is of none; the nearest are named.
    """
    if found := unmatched(allowed, names):
        hints = [f"for {name} did you mean {' or '.join(near)}?" for name, near in found.items() if near]
        raise UsageError(
            f"no lock has a package {', '.join(found)}, before or now; nothing was changed",
            where=OPTION,
            next_step=" ".join(hints) or "locks/*.txt and locks/*.yaml have the names",
        )
