"""Attacks on Debian's signed lists: only what a key of the keyring signed, for this suite and day, gets into a lock."""

from __future__ import annotations

import hashlib
import resource
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.debian_lock import DebianPackage, load_lock
from cpuwheels.core.errors import DigestMismatchError, DownloadError, MatrixError, SignatureError, ToolchainError
from cpuwheels.fetch.debian.release import read_list
from cpuwheels.fetch.debian.root import fetch_package
from signed_mirror import FILES, LOCK, NOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.core.store import Store
    from signed_mirror import Mirror

FIRST, SECOND = FILES["signers.txt"].decode().split()
FORGED = "Codename: trixie\nDate: Sun, 01 Jun 2025 00:00:00 UTC\nSHA256:\n " + "0" * 64 + " 9 main/forged\n\n"


def changed(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def test_01_signed(mirror: Mirror) -> None:
    found = mirror.resolve()
    assert [(package.name, package.version) for package in found.packages] == [("libc6", "2.41")]
    assert load_lock(mirror.lock.parents[1], "root") == found


def test_02_unsigned_text_before(mirror: Mirror) -> None:
    changed(mirror.release, lambda text: FORGED + text)
    mirror.refuses(SignatureError, "is not one text with its signature")


def test_03_unsigned_text_after(mirror: Mirror) -> None:
    changed(mirror.release, lambda text: text + FORGED)
    mirror.refuses(SignatureError, "is not one text with its signature")


def test_04_unsigned_text_among_the_headers(mirror: Mirror) -> None:
    changed(mirror.release, lambda text: text.replace("\n\n", f"\nComment: x\n{FORGED}", 1))
    mirror.refuses(SignatureError, "InRelease is not signed by Debian")


def test_05_unsigned_text_between_text_and_signature(mirror: Mirror) -> None:
    changed(mirror.release, lambda text: text.replace("-----BEGIN PGP SIGNATURE", f"{FORGED}-----BEGIN PGP SIGNATURE"))
    mirror.refuses(SignatureError, "the signature does not belong to the text")


def test_06_two_signed_texts(mirror: Mirror) -> None:
    other = FILES["other-text.InRelease"].decode()
    changed(mirror.release, lambda text: other + text)
    mirror.refuses(SignatureError, "is not one text with its signature")


def test_07_two_signatures_one_of_an_unknown_key(mirror: Mirror) -> None:
    mirror.serve("first-and-stranger")
    assert mirror.resolve().packages
    found = read_list(mirror.release, "trixie", mirror.url, keyring=mirror.keyring, now=NOW)
    assert found.signers == (FIRST,)


def test_08_two_signatures_one_of_another_text(mirror: Mirror) -> None:
    mirror.serve("good-and-bad")
    mirror.refuses(SignatureError, "the signature does not belong to the text")


def test_09_a_changed_byte(mirror: Mirror) -> None:
    changed(mirror.release, lambda text: text.replace("Suite: stable", "Suite: stabie"))
    mirror.refuses(SignatureError, "the signature does not belong to the text")


def test_10_no_signature(mirror: Mirror) -> None:
    mirror.serve("release")
    mirror.refuses(SignatureError, "is not one text with its signature")


def test_11_another_form_of_signature(mirror: Mirror) -> None:
    mirror.serve("binary")
    mirror.refuses(SignatureError, "is not one text with its signature")


def test_12_a_key_that_is_not_in_the_keyring(mirror: Mirror) -> None:
    mirror.serve("stranger")
    mirror.refuses(SignatureError, "is none of the keyring's")


def test_13_a_revoked_key(mirror: Mirror) -> None:
    mirror.serve("revoked")
    mirror.refuses(SignatureError, "the key that signed it was revoked")


def test_14_an_expired_key(mirror: Mirror) -> None:
    mirror.serve("expired-key")
    mirror.refuses(SignatureError, "the key that signed it has expired")


def test_15_an_expired_signature(mirror: Mirror) -> None:
    mirror.serve("expired-signature")
    mirror.refuses(SignatureError, "the signature has expired")


def test_16_a_weak_digest(mirror: Mirror) -> None:
    mirror.serve("sha1")
    mirror.refuses(SignatureError, "or it was signed with SHA-1")


def test_17_no_gpgv(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(mirror.folder))
    error = mirror.refuses(SignatureError, "gpgv is not on this machine")
    assert "install the package gpgv" in error.next_step


def test_18_no_keyring(mirror: Mirror) -> None:
    mirror.keyring.unlink()
    error = mirror.refuses(SignatureError, "no signature of Debian's can be checked")
    assert "install the package debian-archive-keyring" in error.next_step


def test_19_another_suite(mirror: Mirror) -> None:
    mirror.serve("bullseye")
    mirror.refuses(SignatureError, "serves the list of bullseye as that of trixie")


def test_20_an_old_list(mirror: Mirror) -> None:
    mirror.refuses(SignatureError, "was valid until 2025-06-08", now=datetime(2025, 6, 9, tzinfo=UTC))


def test_21_a_list_of_the_future(mirror: Mirror) -> None:
    mirror.refuses(SignatureError, "was made at 2025-06-01", now=datetime(2025, 5, 30, tzinfo=UTC))


def test_22_a_snapshot_is_judged_by_its_own_day(mirror: Mirror, tmp_path: Path) -> None:
    for day, error in (("20250603", None), ("20250609", "was valid until"), ("20250530", "was made at")):
        place = tmp_path / "archive" / "debian" / f"{day}T000000Z"
        shutil.copytree(mirror.folder, place)
        snapshot = type(mirror)(place, mirror.lock, mirror.keyring)
        if error:
            snapshot.refuses(SignatureError, error)
        else:
            assert snapshot.resolve(now=datetime(2030, 1, 1, tzinfo=UTC)).packages
            mirror.lock.write_text(LOCK)


def test_23_a_bomb(mirror: Mirror) -> None:
    """The bomb unpacks to 64 MiB; what the list states is 113 bytes."""
    mirror.serve("bomb", "bomb")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mirror.refuses(DigestMismatchError, "does not unpack to the 1[0-9]{2} bytes")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10


def test_24_an_index_without_its_unpacked_size(mirror: Mirror) -> None:
    mirror.serve("unlisted")
    mirror.refuses(DownloadError, "has no architecture amd64")


def test_25_an_index_that_is_not_the_lists(mirror: Mirror) -> None:
    mirror.serve("good", "outside")
    mirror.refuses(DigestMismatchError, "the index of Debian suite trixie")


def test_26_a_file_outside_of_the_mirror(mirror: Mirror) -> None:
    mirror.serve("outside", "outside")
    error = mirror.refuses(ToolchainError, "an entry that cannot be used")
    assert error.where == "libc6"
    mirror.lock.write_text(LOCK.replace("[]", "\n- " + "\n  ".join(outside_package())))
    with pytest.raises(MatrixError, match=r"packages\.0\.path"):
        load_lock(mirror.lock.parents[1], "root")


def outside_package() -> list[str]:
    return ["name: libc6", "version: '1'", "path: pool/../../x.deb", "size: 10", f"sha256: {'0' * 64}"]


def test_27_a_hostile_mirror_stops_nobody(mirror: Mirror, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hostile = type(mirror)(tmp_path / "hostile", mirror.lock, mirror.keyring)
    hostile.serve("stranger")
    assert hostile.resolve(mirror.url).packages[0].version == "2.41"
    assert f"{hostile.url}/dists/trixie/InRelease" in caplog.text


def test_28_a_package_that_is_not_the_pinned_one(mirror: Mirror, store: Store) -> None:
    digest = hashlib.sha256(b"0123456789").hexdigest()
    package = DebianPackage(name="libc6", version="2.41", path="pool/main/libc6.deb", size=10, sha256=digest)
    served = mirror.folder / package.path
    served.parent.mkdir(parents=True)
    served.write_bytes(b"9876543210")
    with pytest.raises(DigestMismatchError):
        fetch_package(package, [mirror.url], store)
    served.write_bytes(b"0123456789")
    assert fetch_package(package, [mirror.url], store).read_bytes() == b"0123456789"
