"""All locks together or none: in a copy, compared, and put in place."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import BuildEnvironmentError, DownloadError, UsageError
from cpuwheels.core.store import Store
from cpuwheels.fetch.locks import update
from cpuwheels.fetch.locks.debian_locks import DebianOutcome, DebianRules
from cpuwheels.fetch.locks.python_locks import LOCKS, Rules
from cpuwheels.fetch.locks.update import Outcome, UpdateOptions, put_in_place, update_locks

LISTED = datetime(2026, 10, 30, 8, tzinfo=UTC)


@pytest.fixture
def project(tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    shutil.copytree(project_root / "locks", root / "locks")
    for name in ("matrix.yaml", "pyproject.toml"):
        shutil.copyfile(project_root / name, root / name)
    monkeypatch.setattr(update, "answers", lambda _: False)
    monkeypatch.setattr(update, "releases", lambda _: {})
    monkeypatch.setattr(update, "same_copyright", lambda *_: None)
    monkeypatch.setattr(update, "age_of", lambda *_: (None, True))
    return root


def content(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def renew(root: Path, **options: object) -> Outcome:
    work = root.parent
    return update_locks(
        root,
        UpdateOptions(**options),  # type: ignore[arg-type]
        store=Store(work / "cache"),
        reporter=Reporter("lock"),
        logs=work,
    )


def bump_python(root: Path, name: str, _rules: Rules, _log: Path) -> None:
    lock = root / "locks" / f"{name}.txt"
    lock.write_text(lock.read_text().replace("packaging==26.3", "packaging==26.9"))


def bump_debian(root: Path, _rules: DebianRules) -> DebianOutcome:
    lock = root / "locks" / "licenses.yaml"
    lock.write_text(lock.read_text().replace("size: ", "size: 1", 1))
    return DebianOutcome(dates={"sid": LISTED}, renewed=["licenses.yaml"])


def test_everything_is_put_in_place_together(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "resolve", bump_python)
    monkeypatch.setattr(update, "resolve_all", bump_debian)
    found = renew(project, update=True)
    assert {one.name for one in found.changes if one.source == "PyPI"} == {"packaging"}
    assert {"locks/run.txt", "locks/licenses.yaml", "locks/downloads/x86.json", "matrix.yaml"} <= set(found.files)
    # The lists follow the locks, and the snapshot keeps what was resolved.
    size = next(line for line in (project / "locks/licenses.yaml").read_text().splitlines() if "size:" in line)
    assert size.split()[-1] in (project / "locks/downloads/x86.json").read_text()
    assert "archive/debian/20261031T000000Z" in (project / "matrix.yaml").read_text()
    assert "20261101T000000Z" not in (project / "matrix.yaml").read_text()
    assert any("20261031T000000Z" in note for note in found.notes)


def test_the_older_snapshot_stays_for_a_lock_that_stays(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(root: Path, rules: DebianRules) -> DebianOutcome:
        outcome = bump_debian(root, rules)
        outcome.held = {"gcc-15-amd64.yaml": "g++-15 is 2 days old"}
        return outcome

    monkeypatch.setattr(update, "resolve_all", held)
    found = renew(project, update=True, python=False)
    text = (project / "matrix.yaml").read_text()
    assert text.index("20261031T000000Z") < text.index("20261101T000000Z")
    assert found.held == {"gcc-15-amd64.yaml": "g++-15 is 2 days old"}


@pytest.mark.parametrize("fault", ["python", "debian", "lists"])
def test_nothing_is_changed_if_anything_fails(project: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    def fail(*_: object) -> None:
        raise BuildEnvironmentError("it cannot be resolved") if fault == "python" else DownloadError("it is not there")

    last = list(LOCKS)[-1]

    def python(root: Path, name: str, rules: Rules, log: Path) -> None:
        bump_python(root, name, rules, log)
        if fault == "python" and name == last:
            fail()

    monkeypatch.setattr(update, "resolve", python)
    monkeypatch.setattr(update, "resolve_all", fail if fault == "debian" else bump_debian)
    if fault == "lists":
        monkeypatch.setattr(update, "download_files", fail)
    before = content(project)
    with pytest.raises((BuildEnvironmentError, DownloadError)):
        renew(project, update=True)
    assert content(project) == before


def test_a_disk_that_is_full_in_the_middle_leaves_all_as_it_was(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, original = tmp_path / "copy", content(project)
    shutil.copytree(project, copy)
    (copy / "locks" / "new.txt").write_text("new\n")
    for name in ("dev.txt", "run.txt", "zig.txt"):
        (copy / "locks" / name).write_text("changed\n")
    (project / "locks" / "parity.txt").write_text("changed by hand meanwhile\n")
    before, real = content(project), update.write_atomic

    def full(path: Path, data: bytes | str) -> None:
        if path == project / "locks" / "run.txt" and data == b"changed\n":
            raise OSError(28, "No space left on device")
        real(path, data)

    monkeypatch.setattr(update, "write_atomic", full)
    with pytest.raises(Exception, match=r"(?i)space|full"):
        put_in_place(copy, project, original)
    assert content(project) == before
    monkeypatch.setattr(update, "write_atomic", real)
    assert put_in_place(copy, project, original) == ["locks/dev.txt", "locks/new.txt", "locks/run.txt", "locks/zig.txt"]
    assert (project / "locks" / "parity.txt").read_text() == "changed by hand meanwhile\n"


def test_the_cooldown_is_a_snapshot_where_there_is_one(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[DebianRules] = []

    def note(_: Path, rules: DebianRules) -> DebianOutcome:
        asked.append(rules)
        return DebianOutcome()

    monkeypatch.setattr(update, "resolve_all", note)
    monkeypatch.setattr(update, "answers", lambda _: True)
    monkeypatch.delenv("CPUWHEELS_DEBIAN_MIRROR", raising=False)
    found = renew(project, update=True, python=False, cooldown=3.0)
    (rules,) = asked
    assert rules.mirrors[0].startswith("https://snapshot.debian.org/archive/debian/")
    assert any("snapshot.debian.org" in note for note in found.notes)
    renew(project, update=True, python=False, as_of=LISTED)
    assert asked[-1].as_of == LISTED
    assert "snapshot.debian.org" not in asked[-1].mirrors[0]
    renew(project, python=False)
    assert asked[-1].cooldown is None


@pytest.mark.parametrize("kind", ["python", "debian"])
def test_a_name_that_no_lock_has_changes_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    monkeypatch.setattr(update, "resolve", bump_python)
    monkeypatch.setattr(update, "resolve_all", bump_debian)
    before = content(project)
    name, near = ("packagin", "packaging") if kind == "python" else ("binutil", "binutils")
    options = {"update": True, "python": kind == "python", "debian": kind == "debian"}
    with pytest.raises(UsageError, match=rf"no lock has a package {name}, before or now") as raised:
        renew(project, allowed=(name,), **options)
    assert near in raised.value.next_step
    assert f"--allow {name}: no lock has that package by now" in capsys.readouterr().err, "before it is resolved"
    assert content(project) == before
    other = "binutils" if kind == "python" else "packaging"
    with pytest.raises(UsageError, match=f"no lock has a package {other}"):
        renew(project, allowed=(other,), **options)


def test_a_name_may_be_new(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def grown(root: Path, name: str, _rules: Rules, _log: Path) -> None:
        lock = root / "locks" / f"{name}.txt"
        lock.write_text(f"{lock.read_text()}brand-new==1.0\n")

    def held(_root: Path, _rules: DebianRules) -> DebianOutcome:
        return DebianOutcome(held={"gcc-15-amd64.yaml": "g++-15 is 2 days old"}, names={"libnew1"})

    monkeypatch.setattr(update, "resolve", grown)
    monkeypatch.setattr(update, "resolve_all", held)
    found = renew(project, update=True, allowed=("Brand_New", "libnew1"))
    assert {one.name for one in found.changes} == {"brand-new"}


def test_a_fix_is_taken_by_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Rules] = []
    monkeypatch.setattr(update, "resolve", lambda _root, _name, rules, _log: asked.append(rules))
    found = renew(project, update=True, debian=False, allowed=("urllib3",))
    assert {rules.allowed for rules in asked} == {frozenset({"urllib3"})}
    assert len({id(rules) for rules in asked}) == len(LOCKS)
    assert found.files == []
