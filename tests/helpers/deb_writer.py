"""Writes tiny Debian packages and mirrors."""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Deb:
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    members: list[tarfile.TarInfo] = field(default_factory=list)
    """Further members, as they are."""

    def write(self, path: Path) -> Path:
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for name, text in self.files.items():
                entry = tarfile.TarInfo(f"./{name}")
                entry.size, entry.mode = len(text.encode()), 0o6755 if "bin/" in name else 0o644
                entry.uid = entry.gid = 12345
                tar.addfile(entry, io.BytesIO(text.encode()))
            for name, target in self.links.items():
                tar.addfile(_member(f"./{name}", tarfile.SYMTYPE, target))
            for member in self.members:
                tar.addfile(member)
        empty = io.BytesIO()
        tarfile.open(fileobj=empty, mode="w").close()
        parts = {
            "debian-binary": b"2.0\n",
            "control.tar.xz": lzma.compress(empty.getvalue()),
            "data.tar.xz": lzma.compress(raw.getvalue()),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"!<arch>\n" + b"".join(_ar_member(name, data) for name, data in parts.items()))
        return path


def link(name: str, target: str) -> tarfile.TarInfo:
    return _member(name, tarfile.SYMTYPE, target)


def hard_link(name: str, target: str) -> tarfile.TarInfo:
    return _member(name, tarfile.LNKTYPE, target)


def device(name: str) -> tarfile.TarInfo:
    return _member(name, tarfile.CHRTYPE, "")


def plain(name: str) -> tarfile.TarInfo:
    return _member(name, tarfile.REGTYPE, "")


SIGNED_TEXT = """\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

{}
-----BEGIN PGP SIGNATURE-----

iQ==
-----END PGP SIGNATURE-----
"""

FAKE_GPGV = r"""#!/bin/sh
# Takes any signature for a good one, unless the file `status` next to it says otherwise.
folder=$(dirname "$0")
while [ $# -gt 1 ]; do
    case $1 in --output) output=$2 ;; --log-file) log=$2 ;; esac
    shift
done
sed -n '/^$/,/^-----BEGIN PGP SIGNATURE-----$/p' "$1" | sed -e 1d -e '/^-----BEGIN/,$d' > "$output"
echo 'Good signature, or not' > "$log"
cat "$folder/status" 2> "$folder/none" || printf '[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG 1 Me\n[GNUPG:] VALIDSIG 2 x ABCD\n'
"""


def write_suite(mirror: Path, suite: str, packages: str, **fields: str) -> None:
    """Write a suite's index and its list of digests, with what only looks like a signature.

    Args:
        mirror: The mirror's folder.
        suite: Name of the suite.
        packages: Text of its index.
        fields: Of the list, in place of the usual ones.
    """
    data, name = lzma.compress(packages.encode()), "main/binary-amd64/Packages"
    index = mirror / f"dists/{suite}/{name}.xz"
    index.parent.mkdir(parents=True)
    index.write_bytes(data)
    stated = {"Origin": "Debian", "Codename": suite, "Date": "Sat, 21 Nov 2026 09:15:44 UTC"} | {
        name.replace("_", "-"): value for name, value in fields.items()
    }
    sums = "".join(
        f"\n {hashlib.sha256(content).hexdigest()} {len(content)} {path}"
        for path, content in ((name, packages.encode()), (f"{name}.xz", data))
    )
    text = "".join(f"{key}: {value}\n" for key, value in stated.items()) + f"SHA256:{sums}"
    index.parents[2].joinpath("InRelease").write_text(SIGNED_TEXT.format(text))


def write_gpgv(folder: Path, status: str = "") -> tuple[Path, Path]:
    """Write a program that plays gpgv into a folder, and a keyring next to it; return the folder and the keyring.

    Args:
        folder: Made if need be.
        status: What it reports in place of one good signature.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program, keyring = folder / "gpgv", folder / "keyring.gpg"
    program.write_text(FAKE_GPGV)
    program.chmod(0o755)
    if status:
        (folder / "status").write_text(status)
    keyring.touch()
    return folder, keyring


def _member(name: str, kind: bytes, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, 0o755
    return member


def _ar_member(name: str, data: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
    return header + data + b"\n" * (len(data) % 2)
