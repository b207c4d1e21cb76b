"""A suite's signed list (``InRelease``): only what gpgv verified is read, and only of the right suite and day."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from debian.deb822 import Release

from cpuwheels.core.capture import capture
from cpuwheels.core.errors import SignatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
"""Debian's archive keys, as its package ``debian-archive-keyring`` installs them."""

CLOCK_SKEW = timedelta(hours=1)
"""By how much a list may be newer than this machine's clock."""

_MESSAGE = "-----BEGIN PGP SIGNED MESSAGE-----"
_SIGNATURE = ("-----BEGIN PGP SIGNATURE-----", "-----END PGP SIGNATURE-----")
_SNAPSHOT = re.compile(r"/archive/debian/(\d{8}T\d{6}Z)$")  # of snapshot.debian.org and what mirrors it
_STATUS = "[GNUPG:] "
_FAULTS = {
    "BADSIG": "the signature does not belong to the text",
    "ERRSIG": "the key that signed it is none of the keyring's, or it was signed with SHA-1",
    "EXPKEYSIG": "the key that signed it has expired",
    "EXPSIG": "the signature has expired",
    "REVKEYSIG": "the key that signed it was revoked",
    "NODATA": "it has no signature",
    "ERROR": "it has more than one signed text, or is damaged",
}
"""What gpgv reports (GnuPG's doc/DETAILS), and what it means."""
_REFUSED = ("BADSIG", "NODATA", "ERROR")
"""Of these, what is refused even if there is another, good signature."""
_NEXT = "use another mirror (CPUWHEELS_DEBIAN_MIRROR)"


@dataclass(frozen=True)
class Listed:
    """A file that a suite's list names.

    Attributes:
        sha256: Of its bytes.
        size: Bytes.
    """

    sha256: str
    size: int


@dataclass(frozen=True)
class SuiteList:
    """What a suite's list states.

    Attributes:
        date: When it was made.
        signers: Fingerprints of the primary keys whose signatures are good.
        files: By path below the suite.
    """

    date: datetime
    signers: tuple[str, ...]
    files: Mapping[str, Listed]


def find_gpgv(keyring: Path) -> Path:
    """Return the program that checks signatures.

    Args:
        keyring: The keys that may sign; it has to be there, too.

    Raises:
        SignatureError: The program or the keys are not on this machine.
    """
    found = shutil.which("gpgv")
    if found is None or not keyring.is_file():
        missing, package = ("gpgv", "gpgv") if found is None else (str(keyring), "debian-archive-keyring")
        raise SignatureError(
            f"{missing} is not on this machine, so no signature of Debian's can be checked",
            where="PATH" if found is None else keyring,
            next_step=f"install the package {package} (apt-get install gpgv debian-archive-keyring)",
        )
    return Path(found)


def read_list(path: Path, suite: str, mirror: str, *, keyring: Path, now: datetime) -> SuiteList:
    """Return what a suite's list states, after every check.

    Args:
        path: The ``InRelease`` file as it was fetched.
        suite: Name of the suite: codename, or a name such as ``unstable``.
        mirror: Where it came from. A snapshot's list has to be valid on the snapshot's day, any other one now.
        keyring: The keys that may sign.
        now: The time.

    Raises:
        SignatureError: It is not wholly signed by one of the keys, is another suite's, or is not valid at that time.
    """
    where = f"{mirror}/dists/{suite}/InRelease"
    text, signers = verified_text(path, where, keyring)
    try:
        stated = Release(text)
        names = {stated.get("Codename"), stated.get("Suite")}
        date, until = _time(stated["Date"]), _time(stated["Valid-Until"]) if "Valid-Until" in stated else None
        files = {entry["name"]: Listed(entry["sha256"], int(entry["size"])) for entry in stated["SHA256"]}
    except (KeyError, ValueError, TypeError) as error:
        raise SignatureError(f"the list of Debian suite {suite} cannot be read: {error}", where=where) from error
    if suite not in names:
        raise SignatureError(
            f"the mirror serves the list of {stated.get('Codename') or stated.get('Suite')} as that of {suite}",
            where=where,
            next_step=_NEXT,
        )
    _check_dates(suite, date, until, at=snapshot_time(mirror) or now, where=where)
    return SuiteList(date, signers, files)


def snapshot_time(mirror: str) -> datetime | None:
    """Return the moment that a mirror's address names as a snapshot; None for a mirror of the present."""
    found = _SNAPSHOT.search(mirror.rstrip("/"))
    return datetime.strptime(found[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) if found else None


def verified_text(path: Path, where: str, keyring: Path) -> tuple[str, tuple[str, ...]]:
    """Return the signed text of a file, as gpgv wrote it, and who signed it.

    A list may have several signatures, and at least one has to be good: Debian signs with the keys of two releases, of
    which an older keyring has one.

    Args:
        path: The file.
        where: Where it came from, for messages.
        keyring: The keys that may sign.

    Raises:
        SignatureError: It is not one text with a good signature and nothing else.
    """
    gpgv = find_gpgv(keyring)
    _check_frame(path, where)
    with tempfile.TemporaryDirectory(prefix="gpgv-") as name:
        text, log = Path(name, "text"), Path(name, "log")
        settings: list[str | Path] = ["--homedir", name, "--log-file", log, "--status-fd", "1", "--weak-digest", "SHA1"]
        answer = capture([gpgv, *settings, "--keyring", keyring, "--output", text, path])
        signers, faults = _signers(answer.output)
        if not signers or any(fault in _REFUSED for fault in faults):
            said = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else answer.output
            why = next((_FAULTS[fault] for fault in faults), f"gpgv ended with status {answer.returncode}")
            raise SignatureError(
                f"{path.name} is not signed by Debian: {why}",
                where=where,
                output="\n".join(said.strip().splitlines()[-4:]),
                next_step=f"{_NEXT}, or update debian-archive-keyring",
            )
        return text.read_text(encoding="utf-8", errors="replace"), signers


def _check_frame(path: Path, where: str) -> None:
    """Refuse a file that is more than one signed text: gpgv skips what is before it, and other programs read that."""
    lines = path.read_text(encoding="utf-8", errors="replace").rstrip().split("\n")
    marks = [line.rstrip() for line in lines if line.startswith("-----")]
    wanted = [_MESSAGE, *_SIGNATURE]
    if marks != wanted or (lines[0].rstrip(), lines[-1].rstrip()) != (_MESSAGE, _SIGNATURE[1]):
        raise SignatureError(
            f"{path.name} is not one text with its signature: something is before, after or between",
            where=where,
            next_step=_NEXT,
        )


def _signers(status: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the primary keys with a good signature, and what else gpgv reports."""
    good = False
    signers: list[str] = []
    faults: list[str] = []
    for line in status.splitlines():
        word, *values = line.removeprefix(_STATUS).split() or [""] if line.startswith(_STATUS) else [""]
        if word == "NEWSIG":
            good = False
        elif word == "GOODSIG":
            good = True
        elif word == "VALIDSIG" and good:
            signers.append(values[-1])
        elif word in _FAULTS:
            faults.append(word)
    return tuple(dict.fromkeys(signers)), faults


def _check_dates(suite: str, date: datetime, until: datetime | None, *, at: datetime, where: str) -> None:
    if date > at + CLOCK_SKEW:
        raise SignatureError(
            f"the list of Debian suite {suite} was made at {date:%Y-%m-%d %H:%M} UTC, after {at:%Y-%m-%d %H:%M}",
            where=where,
            next_step=f"set this machine's clock; if it is right, {_NEXT}",
        )
    if until is not None and at > until:
        raise SignatureError(
            f"the list of Debian suite {suite} was valid until {until:%Y-%m-%d %H:%M} UTC: the mirror is out of date",
            where=where,
            next_step=f"{_NEXT}, or a day's snapshot: https://snapshot.debian.org/archive/debian/YYYYMMDDT000000Z; "
            f"if a list of that age is wanted, nox -s lock -- --as-of {date:%Y-%m-%dT%H:%M}",
        )


def _time(text: str) -> datetime:
    moment = parsedate_to_datetime(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
