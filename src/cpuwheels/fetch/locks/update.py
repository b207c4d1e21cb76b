"""All locks resolved anew in a copy of them, compared, and put in place together or not at all."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from packaging.version import Version

from cpuwheels.config.download_lists import FOLDER, download_files
from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.filesystem import make_folders, storage_errors, write_atomic
from cpuwheels.fetch.debian.mirrors import VARIABLE, mirrors
from cpuwheels.fetch.debian.release import KEYRING
from cpuwheels.fetch.locks.allowed import OPTION, locked_names, require_matched, unmatched
from cpuwheels.fetch.locks.changes import debian_changes, python_changes
from cpuwheels.fetch.locks.debian_facts import same_copyright
from cpuwheels.fetch.locks.debian_locks import (
    DebianOutcome,
    DebianRules,
    age_of,
    answers,
    resolve_all,
    snapshot_day,
    snapshot_of,
)
from cpuwheels.fetch.locks.python_facts import licence_of, releases
from cpuwheels.fetch.locks.python_locks import LOCKS, Rules, resolve

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.fetch.locks.changes import Change

COOLDOWN_DAYS = 7.0
"""Most packages that are published with malice are found and removed within days."""

MATRIX, PROJECT = "matrix.yaml", "pyproject.toml"
_SNAPSHOT = re.compile(r"^(?P<before>\s*- \S+/archive/debian/)\d{8}T\d{6}Z[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class UpdateOptions:
    """How locks are renewed.

    Attributes:
        update: Whether newer versions are taken; if not, Python packages stay as they are as far as they fit.
        cooldown: Days for which a version has to have been published; only with ``update``.
        allowed: Names of packages for which that does not hold, such as for a security fix.
        as_of: A time; a suite's list that has expired is accepted if it was valid then.
        python: Whether the locks of Python packages are renewed.
        debian: Whether those of Debian packages are.
    """

    update: bool = False
    cooldown: float = COOLDOWN_DAYS
    allowed: tuple[str, ...] = ()
    as_of: datetime | None = None
    python: bool = True
    debian: bool = True


@dataclass
class Outcome:
    """What came of it.

    Attributes:
        changes: A row for each package.
        held: Debian lock that stays as it is → why.
        files: Files that were written, relative to the project's folder.
        notes: How it was resolved.
    """

    changes: list[Change] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def update_locks(
    root: Path, options: UpdateOptions, *, store: Store, reporter: Reporter, logs: Path, keyring: Path = KEYRING
) -> Outcome:
    """Renew the locks of a project, and the lists of what a build may download.

    Args:
        root: The project's folder.
        options: How.
        store: Where packages are kept that are compared, and the copy.
        reporter: Reports each lock.
        logs: Folder for uv's output.
        keyring: Debian's archive keys.

    Raises:
        UsageError: A name is allowed that no package has; nothing was changed then.
        CpuwheelsError: A lock cannot be resolved; likewise.
    """
    now = datetime.now(UTC)
    outcome = Outcome()
    with store.scratch("locks") as work:
        copy = work / "project"
        before = _copy(root, copy)
        names = _names(copy, options)
        for name, near in unmatched(options.allowed, names).items():
            hint = f"; the nearest names are {', '.join(near)}" if near else ""
            reporter.announce(f"{OPTION} {name}: no lock has that package by now{hint}")
        if options.python:
            _python(copy, options, now, outcome, reporter, logs)
        rules = _rules(root, options, now, keyring, outcome)
        debian = DebianOutcome()
        if options.debian:
            reporter.info(f"resolving Debian's locks against {', '.join(rules.mirrors)}")
            debian = resolve_all(copy, rules)
            outcome.held = debian.held
            _move_snapshot(copy, rules, debian, outcome)
        require_matched(options.allowed, names | _names(copy, options) | debian.names)
        for path, text in download_files(copy, load_matrix(copy / MATRIX)).items():
            make_folders(path.parent)
            write_atomic(path, text)
        outcome.changes = python_changes(root, copy) + debian_changes(root, copy)
        _fill(outcome.changes, rules, debian, store, reporter)
        outcome.files = put_in_place(copy, root, before)
    return outcome


def put_in_place(copy: Path, root: Path, before: Mapping[str, bytes]) -> list[str]:
    """Replace the files of a folder that were changed in its copy; if that fails, all are as before.

    Args:
        copy: The copy.
        root: The folder.
        before: What the copy had at first, by path below it; what was changed in the folder meanwhile stays.

    Returns:
        Their paths below the folder.
    """
    found = {path.relative_to(copy).as_posix(): path.read_bytes() for path in sorted(copy.rglob("*")) if path.is_file()}
    changed = {name: new for name, new in found.items() if new != before.get(name)}
    there = {name: (root / name).read_bytes() if (root / name).is_file() else None for name in changed}
    done: list[str] = []
    try:
        for name, new in changed.items():
            done.append(name)
            with storage_errors(root / name):
                make_folders((root / name).parent)
                write_atomic(root / name, new)
    except BaseException:
        for name in done:
            old = there[name]
            if old is None:
                (root / name).unlink(missing_ok=True)
            else:
                write_atomic(root / name, old)
        raise
    return list(changed)


def _names(root: Path, options: UpdateOptions) -> set[str]:
    return locked_names(root, python=options.python, debian=options.debian)


def _copy(root: Path, copy: Path) -> dict[str, bytes]:
    """Copy what locks are and what they are made from, and return it by path."""
    make_folders(copy / "locks")
    for path in (root / MATRIX, root / PROJECT):
        shutil.copyfile(path, copy / path.name)
    for path in [*(root / "locks").glob("*.*"), *(root / FOLDER).glob("*.json")]:
        if path.is_file():
            make_folders((copy / path.relative_to(root)).parent)
            shutil.copyfile(path, copy / path.relative_to(root))
    return {path.relative_to(copy).as_posix(): path.read_bytes() for path in copy.rglob("*") if path.is_file()}


def _python(
    copy: Path, options: UpdateOptions, now: datetime, outcome: Outcome, reporter: Reporter, logs: Path
) -> None:
    before = now - timedelta(days=options.cooldown) if options.update else None
    names = frozenset(options.allowed)
    for name in LOCKS:
        reporter.info(f"resolving locks/{name}.txt")
        # Each by itself: what one lock keeps, another may not have.
        resolve(copy, name, Rules(options.update, before, names), logs / f"{name}.log")
    if before:
        outcome.notes.append(f"Python packages that were uploaded before {before:%Y-%m-%d %H:%M} UTC")


def _rules(root: Path, options: UpdateOptions, now: datetime, keyring: Path, outcome: Outcome) -> DebianRules:
    found = mirrors(load_matrix(root / MATRIX).debian.mirrors, os.environ)
    cooldown = timedelta(days=options.cooldown) if options.update else None
    rules = DebianRules(found, now, options.as_of, cooldown, frozenset(options.allowed), keyring)
    if not options.debian:
        return rules
    if options.as_of:
        outcome.notes.append(
            f"lists of Debian's suites that were valid at {options.as_of:%Y-%m-%d %H:%M} UTC, or are now"
        )
    elif cooldown and not os.environ.get(VARIABLE):
        snapshot = snapshot_of(now - cooldown)
        if answers(snapshot):
            rules.mirrors = (snapshot, *found)
            outcome.notes.append(f"Debian's suites as {snapshot} has them")
        else:
            outcome.notes.append(f"{snapshot} cannot be reached: Debian's packages have to be old enough one by one")
    if options.allowed:
        outcome.notes.append(f"of any age: {', '.join(options.allowed)}")
    return rules


def _move_snapshot(copy: Path, rules: DebianRules, debian: DebianOutcome, outcome: Outcome) -> None:
    """Name a snapshot with what was resolved in matrix.yaml; the older one stays for locks that stay."""
    path = copy / MATRIX
    text = path.read_text(encoding="utf-8")
    found = _SNAPSHOT.search(text)
    if not debian.renewed or found is None:
        return
    line = f"{found['before']}{snapshot_day(rules.mirrors, debian.dates):%Y%m%dT%H%M%SZ}"
    if line.strip() == found[0].strip():
        return
    kept = f"\n{found[0]}" if debian.held else ""
    write_atomic(path, f"{text[: found.start()]}{line}{kept}{text[found.end() :]}")
    outcome.notes.append(f"the snapshot that keeps these packages: {line.strip().removeprefix('- ')}")


def _fill(
    changes: Collection[Change], rules: DebianRules, debian: DebianOutcome, store: Store, reporter: Reporter
) -> None:
    """Find out the age, the size and the licence of what changed; what cannot be found out is left open."""
    for change in changes:
        reporter.info(f"looking up {change.name}")
        if change.source == "PyPI":
            _fill_python(change, rules.now)
            continue
        package = change.new_package
        if package is not None:
            age, change.least = age_of(change, rules, debian.dates)
            change.days = age.total_seconds() / 86400 if age is not None else None
        if change.old_package and package:
            same = same_copyright(change.old_package, package, rules.mirrors, store)
            change.licence = {True: "same copyright file", False: "other copyright file", None: "not compared"}[same]
            change.licence_changed = same is False


def _fill_python(change: Change, today: datetime) -> None:
    found = releases(change.name)
    old, new = (found.get(str(Version(text.split()[-1]))) if text else None for text in (change.old, change.new))
    if new:
        change.days = (today - new.uploaded).total_seconds() / 86400 if new.uploaded else None
        change.size, change.sha256 = new.size, new.sha256
    change.old_size = old.size if old else None
    was, now = licence_of(old), licence_of(new)
    change.licence = f"{was} → {now}" if was and now and was != now else now or was
    change.licence_changed = bool(was and now and was != now)
