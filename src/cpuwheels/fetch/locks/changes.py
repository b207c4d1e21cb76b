"""What changed from one set of locks to another: a row for each package, of Python or of Debian."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.core.models import load_yaml
from cpuwheels.fetch.locks.python_locks import LOCKS, pins

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.config.debian_lock import DebianPackage


@dataclass
class Change:
    """A package whose version changed, that is new, or that is gone.

    Attributes:
        name: Of the package.
        source: ``PyPI`` or the suite of Debian.
        old: Version before; empty if it is new.
        new: Version now; empty if it is gone.
        locks: Names of the locks in which it changed.
        suites: Suites of Debian that its lock takes packages from.
        old_package: Debian's package before.
        new_package: Debian's package now.
        days: Age of the new version, in days.
        least: Whether it may be older.
        licence: What the licence is, or was and is; empty if it is not known.
        licence_changed: Whether it is another.
        size: Bytes of the new file.
        old_size: Bytes of the old one.
        sha256: Of the new file.
    """

    name: str
    source: str
    old: str
    new: str
    locks: list[str] = field(default_factory=list)
    suites: tuple[str, ...] = ()
    old_package: DebianPackage | None = None
    new_package: DebianPackage | None = None
    days: float | None = None
    least: bool = False
    licence: str = ""
    licence_changed: bool = False
    size: int | None = None
    old_size: int | None = None
    sha256: str = ""


def python_changes(before: Path, after: Path) -> list[Change]:
    """Return the changes of the Python locks of two projects' folders."""
    found: dict[tuple[str, str, str], Change] = {}
    for lock in LOCKS:
        old, new = (_pins(root / "locks" / f"{lock}.txt") for root in (before, after))
        for name in sorted(old.keys() | new.keys()):
            gone, come = (
                sorted(old.get(name, set()) - new.get(name, set())),
                sorted(new.get(name, set()) - old.get(name, set())),
            )
            if not gone and not come:
                continue
            key = (name, " ".join(gone), " ".join(come))
            found.setdefault(key, Change(name, "PyPI", key[1], key[2])).locks.append(f"{lock}.txt")
    return list(found.values())


def debian_changes(before: Path, after: Path) -> list[Change]:
    """Return the changes of the Debian locks of two projects' folders."""
    found: dict[tuple[str, str, str, str], Change] = {}
    for path in sorted((after / "locks").glob("*.yaml")):
        old, new = load_yaml(before / "locks" / path.name, DebianLock), load_yaml(path, DebianLock)
        for change in lock_changes(old, new):
            digest = change.new_package.sha256 if change.new_package else ""
            key = (change.name, change.old, change.new, digest)
            found.setdefault(key, change).locks.append(path.name)
    return list(found.values())


def lock_changes(old: DebianLock, new: DebianLock) -> Iterable[Change]:
    """Yield the changes of one Debian lock; a package with other bytes of the same version is one, too."""
    was = {package.name: package for package in old.packages}
    now = {package.name: package for package in new.packages}
    suites = f"Debian {'/'.join(new.suites)} {new.architecture}"
    for name in sorted(was.keys() | now.keys()):
        one, other = was.get(name), now.get(name)
        if one and other and (one.version, one.sha256) == (other.version, other.sha256):
            continue
        yield Change(
            name=name,
            source=suites,
            old=one.version if one else "",
            new=other.version if other else "",
            suites=tuple(new.suites),
            old_package=one,
            new_package=other,
            size=other.size if other else None,
            old_size=one.size if one else None,
            sha256=other.sha256 if other else "",
        )


def _pins(lock: Path) -> dict[str, set[str]]:
    return pins(lock.read_text(encoding="utf-8")) if lock.is_file() else {}
