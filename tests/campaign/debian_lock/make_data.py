"""Writes the signed lists of data.json, each file in base64: python tests/campaign/debian_lock/make_data.py

Needs gpg (Debian's gnupg). The keys are made for this and thrown away, so a second run gives other bytes. All times are
given, and long past: gpgv compares them with the clock of whoever runs the tests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
import subprocess
import tempfile
from pathlib import Path

DATA = Path(__file__).with_name("data.json")
MADE, SIGNED = "20250101T000000", "20250601T000000"
DATE, UNTIL = "Sun, 01 Jun 2025 00:00:00 UTC", "Sun, 08 Jun 2025 00:00:00 UTC"
NAME = "main/binary-amd64/Packages"
STANZA = """\
Package: {package}
Version: {version}
Filename: {path}
Size: 10
SHA256: {digest}
"""
BOMB = 64 << 20
"""Bytes that the bomb unpacks to."""


class Keys:
    """Secret keys in a folder.

    Args:
        home: The folder; short, since gpg-agent's sockets are in it.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

    def gpg(self, *arguments: str, time: str = SIGNED, text: bytes = b"") -> bytes:
        """Run gpg and return what it writes."""
        command = ["gpg", "--homedir", str(self._home), "--batch", "--yes", "--quiet", "--passphrase", ""]
        command += ["--pinentry-mode", "loopback", f"--faked-system-time={time}!", *arguments]
        return subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout

    def make(self, name: str, algorithm: str = "ed25519", lifetime: str = "never") -> str:
        """Make a key and return its fingerprint."""
        self.gpg("--quick-gen-key", f"{name} <{name}@test.invalid>", algorithm, "sign", lifetime, time=MADE)
        listed = self.gpg("--with-colons", "--list-keys", f"{name}@test.invalid").decode()
        return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))

    def revoke(self, fingerprint: str) -> None:
        """Revoke a key with the certificate that gpg made along with it."""
        text = (self._home / "openpgp-revocs.d" / f"{fingerprint}.rev").read_text()
        self.gpg("--import", text=text[text.index(":-----BEGIN") + 1 :].encode())

    def clearsign(self, text: str, *signers: str, time: str = SIGNED, options: tuple[str, ...] = ()) -> bytes:
        """Return a text with the signatures of some keys."""
        users = [word for signer in signers for word in ("--local-user", signer)]
        return self.gpg(*users, *options, "--clearsign", time=time, text=text.encode())


def stated(files: dict[str, tuple[str, int]], **fields: str) -> str:
    """Return a list's text."""
    lines = {"Origin": "Debian", "Suite": "stable", "Codename": "trixie", "Date": DATE, "Valid-Until": UNTIL}
    lines |= {key.replace("_", "-"): value for key, value in fields.items()}
    sums = "\n".join(f" {digest} {size} {name}" for name, (digest, size) in files.items())
    return "".join(f"{key}: {value}\n" for key, value in lines.items()) + f"SHA256:\n{sums}\n"


def listing(text: bytes, packed: bytes) -> dict[str, tuple[str, int]]:
    """Return what a list states of an index."""
    found = {NAME: text, f"{NAME}.xz": packed}
    return {name: (hashlib.sha256(data).hexdigest(), len(data)) for name, data in found.items()}


def spliced(one: bytes, other: bytes) -> bytes:
    """Return the first signed text with the signatures of both."""
    begin, end = b"-----BEGIN PGP SIGNATURE-----\n\n", b"-----END PGP SIGNATURE-----\n"

    def packets(message: bytes) -> bytes:
        lines = message.split(begin)[1].split(end)[0].splitlines()
        return base64.b64decode(b"".join(line for line in lines if not line.startswith(b"=")))

    return one.split(begin)[0] + begin + base64.encodebytes(packets(one) + packets(other)) + end


def main() -> None:
    """Write everything."""
    good = STANZA.format(
        package="libc6", version="2.41", path="pool/main/libc6.deb", digest=hashlib.sha256(b"0123456789").hexdigest()
    ).encode()
    outside = good.replace(b"pool/main/libc6.deb", b"../../../../etc/libc6.deb")
    indexes = {"Packages": good, "outside": outside, "bomb": good}
    packed = {name: lzma.compress(text) for name, text in indexes.items()}
    packed["bomb"] = lzma.compress(good + bytes(BOMB))
    files = {f"{name}.xz": data for name, data in packed.items()}
    usual = stated(listing(good, packed["Packages"]))
    with tempfile.TemporaryDirectory(prefix="k-", dir="/tmp") as home:
        keys = Keys(Path(home))
        first, second, revoked = (keys.make(name) for name in ("first", "second", "revoked"))
        expired = keys.make("expired", lifetime="20250301T000000")
        weak, stranger = keys.make("weak", "rsa2048"), keys.make("stranger")
        signed = {
            "good": keys.clearsign(usual, first, second),
            "other-text": keys.clearsign(usual.replace("trixie", "forged"), second),
            "stranger": keys.clearsign(usual, stranger),
            "first-and-stranger": keys.clearsign(usual, first, stranger),
            "revoked": keys.clearsign(usual, revoked),
            "expired-key": keys.clearsign(usual, expired, time="20250201T000000"),
            "expired-signature": keys.clearsign(usual, first, options=("--default-sig-expire", "1d")),
            "sha1": keys.clearsign(usual, weak, options=("--digest-algo", "SHA1")),
            "bullseye": keys.clearsign(usual.replace("trixie", "bullseye").replace("stable", "oldoldstable"), first),
            "bomb": keys.clearsign(stated(listing(good, packed["bomb"])), first),
            "outside": keys.clearsign(stated(listing(outside, packed["outside"])), first),
            "unlisted": keys.clearsign(stated({f"{NAME}.xz": listing(good, packed["Packages"])[f"{NAME}.xz"]}), first),
        }
        signed["good-and-bad"] = spliced(keys.clearsign(usual, first), signed["other-text"])
        signed["binary"] = keys.gpg("--local-user", first, "--sign", text=usual.encode())
        signed["release"] = usual.encode()
        keys.revoke(revoked)
        files["keyring.gpg"] = keys.gpg("--export", first, second, revoked, expired, weak)
        files["signers.txt"] = f"{first}\n{second}\n".encode()
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)
    files |= {f"{name}.InRelease": data for name, data in signed.items()}
    coded = {name: base64.b64encode(data).decode() for name, data in sorted(files.items())}
    DATA.write_text(json.dumps(coded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
