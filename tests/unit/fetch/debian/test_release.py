"""What is read of a suite's list; the signatures themselves are in tests/campaign/debian_lock."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cpuwheels.core.errors import SignatureError
from cpuwheels.fetch.debian.release import Listed, find_gpgv, read_list, snapshot_time, verified_text
from deb_writer import SIGNED_TEXT, write_gpgv

NOW = datetime(2026, 11, 25, tzinfo=UTC)
STATED = "Suite: unstable\nCodename: sid\nDate: Sat, 21 Nov 2026 09:15:44 UTC\nSHA256:\n aa 12 main/x"
GOOD = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG 1 Me\n[GNUPG:] VALIDSIG 2 x {}\n"


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools, keys = write_gpgv(tmp_path / "tools")
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return keys


def listed(tmp_path: Path, text: str = STATED) -> Path:
    path = tmp_path / "InRelease"
    path.write_text(SIGNED_TEXT.format(text))
    return path


@pytest.mark.parametrize("suite", ["sid", "unstable"])
def test_a_list_states_when_it_was_made_and_what_the_suite_has(tmp_path: Path, keyring: Path, suite: str) -> None:
    found = read_list(listed(tmp_path), suite, "https://x/debian", keyring=keyring, now=NOW)
    assert found.date == datetime(2026, 11, 21, 9, 15, 44, tzinfo=UTC)
    assert found.files == {"main/x": Listed("aa", 12)}
    assert found.signers == ("ABCD",)


def test_only_what_gpgv_wrote_is_read(tmp_path: Path, keyring: Path) -> None:
    program = keyring.with_name("gpgv")
    program.write_text(program.read_text().replace("sed -n", 'echo other > "$output"; : sed -n').replace("| sed", "#"))
    assert verified_text(listed(tmp_path), "x", keyring) == ("other\n", ("ABCD",))


@pytest.mark.parametrize(
    ("text", "suite", "message"),
    [
        (STATED, "trixie", "serves the list of sid as that of trixie"),
        (STATED.replace("2026", "2027"), "sid", "was made at 2027-11-21 09:15 UTC, after 2026-11-25"),
        (STATED + "\nValid-Until: Sun, 22 Nov 2026 00:00:00 UTC", "sid", "was valid until 2026-11-22 00:00 UTC"),
        (STATED + "\nValid-Until: some day", "sid", "cannot be read"),
        (STATED.replace("Date", "Day"), "sid", "cannot be read: 'Date'"),
        (STATED.replace("SHA256", "MD5Sum"), "sid", "cannot be read"),
        (STATED.replace("12", "many"), "sid", "cannot be read"),
        ("", "sid", "cannot be read"),
    ],
)
def test_a_list_that_is_not_the_suites_or_not_of_today_is_refused(
    tmp_path: Path, keyring: Path, text: str, suite: str, message: str
) -> None:
    with pytest.raises(SignatureError, match=message) as caught:
        read_list(listed(tmp_path, text), suite, "https://x/debian", keyring=keyring, now=NOW)
    assert caught.value.where == f"https://x/debian/dists/{suite}/InRelease"


@pytest.mark.parametrize(
    ("snapshot", "accepted"), [("20261122T000000Z", True), ("20261125T000000Z", False), ("20261120T000000Z", False)]
)
def test_a_snapshots_list_has_to_be_valid_on_the_snapshots_day(
    tmp_path: Path, keyring: Path, snapshot: str, accepted: bool
) -> None:
    path = listed(tmp_path, STATED + "\nValid-Until: Mon, 23 Nov 2026 00:00:00 UTC")
    mirror = f"https://snapshot.debian.org/archive/debian/{snapshot}/"
    if accepted:
        read_list(path, "sid", mirror, keyring=keyring, now=datetime(2030, 1, 1, tzinfo=UTC))
    else:
        with pytest.raises(SignatureError):
            read_list(path, "sid", mirror, keyring=keyring, now=NOW)


def test_only_a_snapshots_address_has_a_time() -> None:
    assert snapshot_time("http://deb.debian.org/debian") is None
    assert snapshot_time("http://s/archive/debian/20261101T000000Z") == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("[GNUPG:] NEWSIG\n[GNUPG:] EXPKEYSIG 1 Me\n[GNUPG:] VALIDSIG 2 x AB\n", "the key that signed it has expired"),
        ("[GNUPG:] NEWSIG\n[GNUPG:] REVKEYSIG 1 Me\n[GNUPG:] VALIDSIG 2 x AB\n", "was revoked"),
        ("[GNUPG:] NEWSIG\n[GNUPG:] ERRSIG 1 1 8 01 0 9\n", "is none of the keyring's"),
        (GOOD.format("AB") + "[GNUPG:] NEWSIG\n[GNUPG:] BADSIG 1 Me\n", "does not belong to the text"),
        (GOOD.format("AB") + "[GNUPG:] ERROR proc_pkt.plaintext 89\n", "more than one signed text"),
        ("GOODSIG 1 Me\nVALIDSIG 2 x AB\n", "gpgv ended with status 0"),
        (" [GNUPG:] GOODSIG 1 Me\n [GNUPG:] VALIDSIG 2 x AB\n", "gpgv ended with status 0"),
    ],
)
def test_what_gpgv_reports_decides(tmp_path: Path, keyring: Path, status: str, message: str) -> None:
    write_gpgv(keyring.parent, status)
    with pytest.raises(SignatureError, match=message) as caught:
        verified_text(listed(tmp_path), "x", keyring)
    assert "Good signature, or not" in caught.value.output


def test_one_good_signature_of_several_is_enough(tmp_path: Path, keyring: Path) -> None:
    write_gpgv(keyring.parent, "[GNUPG:] NEWSIG\n[GNUPG:] ERRSIG 1 1 8 01 0 9\n" + GOOD.format("AB") * 2)
    assert verified_text(listed(tmp_path), "x", keyring)[1] == ("AB",)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "Codename: sid\n" + text,
        lambda text: text + "Codename: sid\n",
        lambda text: text + text,
        lambda text: text.replace("-----BEGIN PGP SIGNATURE", "-----BEGIN PGP MESSAGE"),
        lambda _: STATED,
        lambda _: "",
    ],
    ids=["before", "after", "twice", "other", "unsigned", "empty"],
)
def test_a_file_is_one_signed_text_and_nothing_else(tmp_path: Path, keyring: Path, change: object) -> None:
    assert callable(change)
    path = listed(tmp_path)
    path.write_text(change(path.read_text()))
    with pytest.raises(SignatureError, match="is not one text with its signature"):
        verified_text(path, "x", keyring)


def test_a_missing_program_and_a_missing_keyring_are_named(
    tmp_path: Path, keyring: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_gpgv(keyring) == keyring.with_name("gpgv")
    with pytest.raises(SignatureError, match="no-keys is not on this machine"):
        find_gpgv(tmp_path / "no-keys")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SignatureError, match="gpgv is not on this machine") as caught:
        find_gpgv(keyring)
    assert "install the package gpgv" in caught.value.next_step
