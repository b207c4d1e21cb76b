"""The locks of Python packages: what each is resolved from, by uv, up to a day."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uv
from packaging.utils import canonicalize_name
from packaging.version import Version

from cpuwheels.core.errors import BuildEnvironmentError, CommandError
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.process import run
from cpuwheels.fetch.uv import uv_environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

LOCKS: dict[str, tuple[str, ...]] = {
    "build-tools": ("locks/build-tools.in",),
    "nox": ("locks/nox.in",),
    "parity": ("locks/parity.in",),
    "upstream-tests": ("locks/upstream-tests.in",),
    "zig": ("locks/zig.in",),
    "run": ("pyproject.toml", "--group", "build"),
    "signing": ("pyproject.toml", "--group", "build", "--extra", "signing"),
    "farm": ("pyproject.toml", "--group", "build", "--extra", "farm", "--extra", "signing"),
    "dev": ("pyproject.toml", "--group", "dev"),
    "bench": ("pyproject.toml", "--group", "bench"),
    "docs": ("pyproject.toml", "--group", "docs"),
}
"""Name of each lock → what uv resolves."""

WITH_FILES = ("build-tools", "zig")
"""Locks that are also written with the names of the files (PEP 751), for the lists of what a build downloads."""

_COMPILE = ("pip", "compile", "--quiet", "--universal", "--python-version=3.11", "--no-header")
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)", re.MULTILINE)
_KEPT = "-kept.txt"
_NOTED = re.compile(rf"^    #   -c \S*{re.escape(_KEPT)}\n", re.MULTILINE)
_LIST_OF_ONE = re.compile(r"^    # via\n    #   (?P<only>.+)\n(?!    #   )", re.MULTILINE)
_ROUNDS = 5


@dataclass
class Rules:
    """Which versions uv may take.

    Attributes:
        upgrade: Whether newer versions are taken, and not only what no longer fits.
        before: What was uploaded later is left out; None for no limit.
        allowed: Names for which that does not hold.
    """

    upgrade: bool = False
    before: datetime | None = None
    allowed: frozenset[str] = frozenset()
    _kept: dict[str, str] = field(default_factory=dict)

    def options(self, constraints: Path) -> list[str | Path]:
        """Return uv's options.

        Args:
            constraints: File to write versions into that stay as they are.
        """
        found: list[str | Path] = ["--upgrade"] if self.upgrade else []
        if self.before is None:
            return found
        found += ["--exclude-newer", f"{self.before:%Y-%m-%dT%H:%M:%SZ}"]
        for name in sorted(self.allowed | self._kept.keys()):
            found += ["--exclude-newer-package", f"{name}=9999-01-01T00:00:00Z"]
        if self._kept:
            write_atomic(constraints, "".join(f"{name}=={version}\n" for name, version in sorted(self._kept.items())))
            found += ["--constraint", constraints]
        return found

    def keep(self, older: Mapping[str, str]) -> None:
        """Keep packages as they are locked: they are younger than the limit, and nothing goes back."""
        self._kept |= older


def resolve(root: Path, name: str, rules: Rules, log: Path) -> None:
    """Resolve a lock in a project's folder, and write it.

    Args:
        root: The project's folder, or a copy of it.
        name: Of the lock.
        rules: Which versions uv may take.
        log: uv's output.

    Raises:
        BuildEnvironmentError: No set of packages meets what is asked for.
    """
    lock = root / "locks" / f"{name}.txt"
    before = lock.read_text(encoding="utf-8") if lock.is_file() else ""
    constraints = log.with_name(f"{name}{_KEPT}")
    for _ in range(_ROUNDS):
        write_atomic(lock, before)
        options = rules.options(constraints)
        _compile(root, [*options, "--generate-hashes", *LOCKS[name], "-o", f"locks/{name}.txt"], name, log)
        older = went_back(before, lock.read_text(encoding="utf-8")) if rules.before else {}
        if not older:
            break
        rules.keep(older)
    write_atomic(lock, without_constraints(lock.read_text(encoding="utf-8")))
    if name in WITH_FILES:
        files = f"locks/pylock.{name}.toml"
        pinned = [option for option in options if option != "--upgrade"]
        arguments = [*pinned, "-c", f"locks/{name}.txt", *LOCKS[name], "--format", "pylock.toml", "-o", files]
        (root / files).unlink(missing_ok=True)
        _compile(root, arguments, name, log)


def pins(text: str) -> dict[str, set[str]]:
    """Return the versions of each package in a lock; where platforms differ there are several."""
    found: dict[str, set[str]] = {}
    for match in _PIN.finditer(text):
        found.setdefault(canonicalize_name(match["name"]), set()).add(match["version"])
    return found


def without_constraints(text: str) -> str:
    """Return a lock without the notes that a version was kept, which name a file of the run."""
    found = _NOTED.sub("", text)
    return found if found == text else _LIST_OF_ONE.sub(r"    # via \g<only>\n", found)


def went_back(before: str, after: str) -> dict[str, str]:
    """Return the packages whose newest version in a lock is older than it was, with what it was."""
    old, new = pins(before), pins(after)
    newest = {name: max(versions, key=Version) for name, versions in old.items()}
    return {
        name: version
        for name, version in newest.items()
        if name in new and max(map(Version, new[name])) < Version(version)
    }


def _compile(root: Path, arguments: list[str | Path], name: str, log: Path) -> None:
    try:
        run([uv.find_uv_bin(), *_COMPILE, *arguments], cwd=root, log=log, env=uv_environment())
    except CommandError as error:
        raise BuildEnvironmentError(
            f"locks/{name}.txt cannot be resolved",
            where=" ".join(LOCKS[name]),
            log=error.log,
            output=error.output,
            next_step="read uv's output; a package that a cooldown leaves out is taken with --allow NAME",
        ) from error
