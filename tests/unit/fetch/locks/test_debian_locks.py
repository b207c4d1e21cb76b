"""Debian's locks with a cooldown: a lock is renewed as a whole or stays as it is."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cpuwheels.config.debian_lock import DebianLock, DebianPackage
from cpuwheels.core.errors import SignatureError
from cpuwheels.core.models import load_yaml
from cpuwheels.fetch.locks import debian_locks as module
from cpuwheels.fetch.locks.changes import Change
from cpuwheels.fetch.locks.debian_locks import DebianRules, age_of, answers, resolve_all, snapshot_day, snapshot_of
from loopback import DEAD, Answer, Server
from signed_mirror import FILES, LOCK, NOW, Mirror

LISTED = datetime(2025, 6, 1, tzinfo=UTC)
"""About when the lists of the test's mirror were made."""


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "a.yaml").write_text(LOCK)
    (tmp_path / "keys.gpg").write_bytes(FILES["keyring.gpg"])
    found = Mirror(tmp_path / "mirror", tmp_path / "locks" / "a.yaml", tmp_path / "keys.gpg")
    found.serve("good")
    return found


def rules(mirror: Mirror, *, days: float | None, now: datetime = NOW, **more: object) -> DebianRules:
    cooldown = None if days is None else timedelta(days=days)
    made = DebianRules((mirror.url,), now, cooldown=cooldown, keyring=mirror.keyring)
    return replace(made, **more)  # type: ignore[arg-type]


def test_a_list_that_is_old_enough_says_enough(mirror: Mirror, tmp_path: Path) -> None:
    found = resolve_all(tmp_path, rules(mirror, days=4, now=NOW + timedelta(days=5)))
    assert (found.held, found.renewed) == ({}, ["a.yaml"])
    assert load_yaml(mirror.lock, DebianLock).packages
    assert resolve_all(tmp_path, rules(mirror, days=4, now=NOW + timedelta(days=5))).renewed == []


def test_of_a_young_list_each_package_has_to_be_old_enough(mirror: Mirror, tmp_path: Path) -> None:
    found = resolve_all(tmp_path, rules(mirror, days=7))
    assert found.renewed == []
    assert mirror.lock.read_text() == LOCK
    assert "days old" in found.held["a.yaml"]
    # The package's file is on the mirror, and has been for long.
    (package,) = resolved(mirror, tmp_path)
    path = mirror.folder / package.path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    month = (NOW - timedelta(days=30)).timestamp()
    os.utime(path, (month, month))
    assert resolve_all(tmp_path, rules(mirror, days=7)).renewed == ["a.yaml"]


def resolved(mirror: Mirror, root: Path) -> tuple[DebianPackage, ...]:
    """The packages that the mirror has; the lock is as before."""
    resolve_all(root, rules(mirror, days=None))
    packages = load_yaml(mirror.lock, DebianLock).packages
    mirror.lock.write_text(LOCK)
    return packages


def test_a_package_is_taken_by_name_at_any_age(mirror: Mirror, tmp_path: Path) -> None:
    assert resolve_all(tmp_path, rules(mirror, days=7, allowed=("other",))).renewed == []
    assert resolve_all(tmp_path, rules(mirror, days=7, allowed=("libc6",))).renewed == ["a.yaml"]


def test_a_list_that_has_expired_says_what_to_do(mirror: Mirror, tmp_path: Path) -> None:
    later = NOW + timedelta(days=1000)
    with pytest.raises(SignatureError, match="was valid until") as caught:
        resolve_all(tmp_path, rules(mirror, days=None, now=later))
    assert "nox -s lock -- --as-of 2025-06-01T00:00" in caught.value.next_step
    with pytest.raises(SignatureError, match="was valid until"):
        resolve_all(tmp_path, rules(mirror, days=None, now=later, as_of=NOW + timedelta(days=30)))
    assert mirror.lock.read_text() == LOCK


def test_a_list_that_has_expired_is_accepted_as_of_its_day(mirror: Mirror, tmp_path: Path) -> None:
    later = NOW + timedelta(days=1000)
    found = resolve_all(tmp_path, rules(mirror, days=7, now=later, as_of=LISTED))
    assert found.renewed == ["a.yaml"]


def test_a_list_that_is_valid_now_needs_no_other_day(mirror: Mirror, tmp_path: Path) -> None:
    """Such as a stable suite's, which is newer than the expired list of sid."""
    assert resolve_all(tmp_path, rules(mirror, days=None, as_of=LISTED - timedelta(days=90))).renewed == ["a.yaml"]


def test_a_list_of_another_suite_says_nothing(mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock whose suite was listed long ago is resolved first."""
    old = LOCK.replace("trixie", "bullseye").replace("libc6", "old")
    (tmp_path / "locks" / "0.yaml").write_text(old)
    real = module.Indexes.resolve

    def resolve(self: module.Indexes, lock: DebianLock) -> DebianLock:
        if "bullseye" in lock.suites:
            self.dates["bullseye"] = NOW - timedelta(days=400)
            return lock
        return real(self, lock)

    monkeypatch.setattr(module.Indexes, "resolve", resolve)
    found = resolve_all(tmp_path, rules(mirror, days=7))
    assert found.renewed == []
    assert "days old" in found.held["a.yaml"]


def test_a_mirror_says_how_old_a_file_is() -> None:
    package = DebianPackage(name="a", version="1", path="pool/a.deb", size=1, sha256="0" * 64)
    change = Change("a", "Debian x amd64", "", "1", suites=("x", "y"), new_package=package)
    dates = {"x": LISTED, "y": LISTED + timedelta(days=2), "z": LISTED + timedelta(days=3)}
    with Server() as server:
        head = {"Last-Modified": "Sun, 01 Jun 2025 00:00:00 GMT"}
        server.serve("/debian/pool/a.deb", Answer(b"x", headers=head, ranges=True))
        mirrors = (f"{DEAD}/debian", server.url("/debian"))
        asked = DebianRules(mirrors, LISTED + timedelta(days=3), cooldown=timedelta(days=7))
        assert age_of(change, asked, dates) == (timedelta(days=3), False)
        assert answers(server.url("/debian")) is False
        server.serve("/debian/dists/stable/InRelease", Answer(b"x"))
        assert answers(server.url("/debian"))
    assert not answers(f"{DEAD}/debian")
    silent = DebianRules((f"{DEAD}/debian",), LISTED + timedelta(days=3), cooldown=timedelta(days=7))
    assert age_of(change, silent, dates) == (timedelta(days=1), True)
    assert age_of(change, silent, {}) == (None, True)


def test_the_snapshot_that_keeps_what_was_resolved() -> None:
    moment = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)
    snapshot = snapshot_of(moment)
    assert snapshot == "https://snapshot.debian.org/archive/debian/20261101T083000Z"
    assert snapshot_day((snapshot, "http://a.org"), {"sid": moment}) == moment
    assert snapshot_day(("http://a.org",), {"sid": moment, "b": LISTED}) == datetime(2026, 11, 2, tzinfo=UTC)
