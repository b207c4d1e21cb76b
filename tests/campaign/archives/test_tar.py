"""Attacks by a source distribution."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bad_tars import Entry, entry, folder, hard_link, link, path_max_chain, pax, tar_bytes

TOP = folder("top")
GOOD = entry("top/good", b"good")
MIB = 1 << 20

UNSAFE: dict[str, list[Entry]] = {
    "01-absolute": [entry("/etc/evil", b"x")],
    "02-parent": [entry("../evil", b"x")],
    "03-out-through-the-top": [entry("top/../../evil", b"x")],
    "04-out-from-below": [entry("top/a/../../../evil", b"x")],
    "05-absolute-link": [link("top/evil", "/etc/passwd")],
    "06-link-out": [link("top/evil", "../evil")],
    "07-link-out-from-below": [link("top/sub/evil", "../../evil")],
    "08-absolute-hard-link": [hard_link("top/evil", "/etc/passwd")],
    "09-hard-link-out": [hard_link("top/evil", "top/../../evil")],
    "10-character-device": [entry("top/evil", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "11-block-device": [entry("top/evil", type=tarfile.BLKTYPE, devmajor=8, devminor=0)],
    "12-pipe": [entry("top/evil", type=tarfile.FIFOTYPE)],
    "13-file-through-a-link": [link("top/door", ".."), entry("top/door/evil", b"x")],
    "14-file-through-a-link-inside": [folder("top/a"), link("top/door", "a"), entry("top/door/b", b"x")],
    "15-path-max-chain": path_max_chain("top/"),
    "16-links-that-lead-out-together": [
        # By their texts alone both stay inside; followed, the second is above.
        *[folder("top/a"), folder("top/a/b"), link("top/a/b/c", "../..")],
        *[link("top/out", "a/b/c/../user/evil")],
    ],
    "17-links-that-lead-out-in-the-other-order": [link("top/out", "a/b/../evil"), link("top/a/b", "..")],
    "18-link-in-a-circle": [link("top/a", "b"), link("top/b", "a")],
    "19-link-to-itself": [link("top/a", "a/a")],
    "20-mtime-nan": [pax("top/a", b"x", mtime="nan")],
    "21-mtime-inf": [pax("top/a", b"x", mtime="inf")],
    "22-mtime-1e30": [pax("top/a", b"x", mtime="1e30")],
    "23-mtime-before-1970": [pax("top/a", b"x", mtime="-1e12")],
    "24-file-over-a-folder": [folder("top/a"), entry("top/a/b", b"x"), entry("top/a", b"y")],
    "25-link-over-a-folder": [folder("top/a"), entry("top/a/b", b"x"), link("top/a", "good")],
    "26-folder-over-a-file": [entry("top/a", b"x"), folder("top/a")],
    "27-file-below-a-file": [entry("top/a", b"x"), entry("top/a/b", b"y")],
    "28-nul-in-a-name": [pax("top/a", b"x", path="top/a\0.txt")],
    "29-escape-in-a-name": [entry("top/a\x1b[2J\x1b]0;title\x07", b"x")],
    "30-direction-in-a-name": [entry("top/a\u202egpj.exe", b"x")],
    "31-line-end-in-a-name": [entry("top/a\n  next:  run evil", b"x")],
    "32-300-bytes-in-a-name": [entry(f"top/{'x' * 300}", b"x")],
    "33-no-utf-8-in-a-name": [pax("top/a\udcff", b"x")],
    "34-escape-in-a-link": [link("top/a", "b\x1b[2J")],
    "35-own-file": [entry("top/.cpuwheels-patches.json", b"{}")],
    "36-own-file-as-a-link": [link("top/.cpuwheels-patches.json", "good")],
    "37-own-manifest-in-capitals": [entry("top/.CPUWHEELS-manifest.json", b"{}")],
    "38-one-large-file": [entry("top/a", b"\0" * (3 * MIB))],
    "39-large-together": [entry(f"top/{number}", b"\0" * MIB) for number in range(5)],
    "40-many-members": [entry(f"top/{number}") for number in range(2001)],
    "41-hard-link-bomb": [entry("top/a", b"\0" * MIB), *(hard_link(f"top/{n}", "top/a") for n in range(100))],
    "42-long-header": [pax("top/a", b"x", comment="x" * (2 * MIB))],
    "43-deep-folders": [entry("top/" + "a/" * 70 + "b", b"x")],
    "44-sparse": [
        pax("top/a", b"0\n" + b"\0" * 510, **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
            "GNU.sparse.realsize": str(1 << 40), "GNU.sparse.name": "top/a"})
    ],
    "45-size-below-zero": [pax("top/a", b"x" * 512, size="-512")],
}  # fmt: skip


@pytest.mark.parametrize("entries", UNSAFE.values(), ids=UNSAFE)
def test_unsafe(refused: Callable[..., str], entries: list[Entry]) -> None:
    refused("tar", gzip.compress(tar_bytes([TOP, GOOD, *entries]), 1))


def endless(pack: Callable[[bytes], bytes]) -> bytes:
    """A small file that unpacks to 96 MiB of zeros behind the archive's end."""
    return pack(tar_bytes([TOP, GOOD]) + b"\0" * (96 * MIB))


@pytest.mark.parametrize(
    "pack",
    [pytest.param(lambda data: gzip.compress(data, 1), id="46-gzip"), pytest.param(bz2.compress, id="47-bzip2"),
     pytest.param(lambda data: lzma.compress(data, preset=0), id="48-xz")],
)  # fmt: skip
def test_bomb_behind_the_end(refused: Callable[..., str], pack: Callable[[bytes], bytes]) -> None:
    refused("tar", endless(pack))


def test_49_sparse_as_gnu_wrote_it(refused: Callable[..., str]) -> None:
    info, _ = entry("top/a")
    info.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0%011o\0" % (0, 0)
    header[483:495] = b"%011o\0" % (1 << 32)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    refused("tar", tar_bytes([TOP, GOOD])[:1536] + bytes(header) + bytes(10240))


def test_50_headers_within_headers(refused: Callable[..., str]) -> None:
    long = tarfile.TarInfo("././@LongLink")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, 4
    block = long.tobuf(tarfile.GNU_FORMAT) + b"top\0".ljust(512, b"\0")
    refused("tar", gzip.compress(block * 5000 + bytes(10240)), damaged=True)


def test_51_xz_that_asks_for_all_memory(refused: Callable[..., str]) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}]
    refused("tar", lzma.compress(tar_bytes([TOP, GOOD]), filters=filters), damaged=True)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(gzip.compress(tar_bytes([])), id="52-empty"),
        pytest.param(gzip.compress(tar_bytes([entry("one/a"), entry("two/b")])), id="53-two-tops"),
        pytest.param(gzip.compress(tar_bytes([GOOD, hard_link("top/b", "top/gone")])), id="54-hard-link-to-nothing"),
        pytest.param(gzip.compress(tar_bytes([GOOD]))[:-60], id="55-cut-off"),
        pytest.param(gzip.compress(tar_bytes([GOOD]))[:-6] + b"\xff" * 6, id="56-other-checksum"),
        pytest.param(gzip.compress(tar_bytes([GOOD]) + b"hidden" * 99), id="57-something-behind-the-end"),
        pytest.param(tar_bytes([TOP, GOOD])[:1536] + b"\xff" * 10240, id="58-no-header-in-the-middle"),
        pytest.param(b"<html>sign in</html>", id="59-no-archive"),
        pytest.param(struct.pack(">Q", 0x8000000000000000) * 64, id="60-no-header"),
    ],
)
def test_damaged(refused: Callable[..., str], data: bytes) -> None:
    refused("tar", data, damaged=True)


def test_61_special_bits_and_owners_are_dropped(accepted: Callable[[str, bytes], Path]) -> None:
    odd = entry("top/su", b"x", mode=0o6777, uid=12345, gid=12345, uname="root")
    out = accepted("tar", gzip.compress(tar_bytes([TOP, odd])))
    assert (out / "su").stat().st_mode & 0o7777 == 0o755
    assert (out / "su").stat().st_uid == out.stat().st_uid


def test_62_a_file_twice_is_the_last(accepted: Callable[[str, bytes], Path]) -> None:
    twice = [entry("top/a", b"first"), hard_link("top/b", "top/a"), entry("top/a", b"last"), link("top/c", "a")]
    out = accepted("tar", gzip.compress(tar_bytes([TOP, *twice])))
    assert ((out / "a").read_bytes(), (out / "b").read_bytes(), (out / "c").read_bytes()) == (
        b"last",
        b"first",
        b"last",
    )
