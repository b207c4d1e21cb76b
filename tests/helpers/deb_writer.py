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


def write_suite(mirror: Path, suite: str, packages: str) -> None:
    """Write a suite's index and (unsigned) list of digests."""
    data = lzma.compress(packages.encode())
    index = mirror / f"dists/{suite}/main/binary-amd64/Packages.xz"
    index.parent.mkdir(parents=True)
    index.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    index.parents[2].joinpath("InRelease").write_text(
        f"Origin: Debian\nSuite: {suite}\nSHA256:\n {digest} {len(data)} main/binary-amd64/Packages.xz\n"
    )


def _member(name: str, kind: bytes, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, 0o755
    return member


def _ar_member(name: str, data: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
    return header + data + b"\n" * (len(data) % 2)
