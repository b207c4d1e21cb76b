"""Attacks by a Debian package."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bad_tars import Entry, ar_bytes, deb_bytes, entry, folder, hard_link, link, path_max_chain, pax, tar_bytes
from cpuwheels.core.errors import UnsafeArchiveError
from cpuwheels.fetch.debian.root import check_root

MIB = 1 << 20
GOOD = entry("./usr/good", b"good")

UNSAFE: dict[str, list[Entry]] = {
    "63-absolute": [entry("/etc/passwd", b"x")],
    "64-parent": [entry("./usr/../../evil", b"x")],
    "65-parent-where-nothing-is-taken": [entry("./usr/share/doc/../../../../evil", b"x")],
    "66-link-out": [link("./usr/up", "../../evil")],
    "67-hard-link-out": [hard_link("./usr/up", "../../evil")],
    "68-device": [entry("./dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "69-path-max-chain": path_max_chain("./"),
    "70-links-that-lead-out-together": [
        *[folder("./a"), folder("./a/b"), link("./a/b/c", "/"), link("./out", "a/b/c/../user/evil")]
    ],
    "71-file-through-a-link": [link("./usr/door", "../.."), entry("./usr/door/evil", b"x")],
    "72-mtime-nan": [pax("./usr/a", b"x", mtime="nan")],
    "73-file-over-a-folder": [entry("./usr/a/b", b"x"), entry("./usr/a", b"x")],
    "74-escape-in-a-name": [entry("./usr/\x1b[2J", b"x")],
    "75-large": [entry("./usr/a", b"\0" * (3 * MIB))],
    "76-many-members": [entry(f"./usr/{number}") for number in range(2001)],
    "77-large-where-nothing-is-taken": [entry(f"./usr/share/doc/{number}", b"\0" * MIB) for number in range(5)],
}


@pytest.mark.parametrize("entries", UNSAFE.values(), ids=UNSAFE)
def test_unsafe(refused: Callable[..., str], entries: list[Entry]) -> None:
    refused("deb", deb_bytes([GOOD, *entries]))


def test_78_link_of_another_package(refused: Callable[..., str], tmp_path: Path) -> None:
    def other(root: Path) -> None:
        (root / "usr").symlink_to(tmp_path / "home" / "user")

    refused("deb", deb_bytes([entry("./usr/evil", b"written")]), before=other)


def test_79_links_of_two_packages_that_lead_out_together(accepted: Callable[..., Path]) -> None:
    # The first is sound as long as a/b is a folder, the second as long as nothing goes through it.
    accepted("deb", deb_bytes([link("./out", "a/b/../evil")]))
    root = accepted("deb", deb_bytes([folder("./a"), link("./a/b", "..")]))
    with pytest.raises(UnsafeArchiveError, match="out is a link that leads outside"):
        check_root(root, "the lock")


BAD_HEADER = {"debian-binary": "-68"}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(deb_bytes([hard_link("./usr/a", "./usr/gone")]), id="80-hard-link-to-nothing"),
        pytest.param(deb_bytes([GOOD])[:-30], id="81-cut-off"),
        pytest.param(deb_bytes([GOOD], sizes=BAD_HEADER), id="82-size-that-leads-back"),
        pytest.param(deb_bytes([GOOD], sizes={"data.tar.xz": "9" * 10}), id="83-size-without-end"),
        pytest.param(ar_bytes([("debian-binary", b"2.0\n"), ("control.tar", b"")]), id="84-no-data"),
        pytest.param(ar_bytes([("debian-binary", b"2.0\n")] + 2 * [("data.tar", tar_bytes([]))]), id="85-data-twice"),
        pytest.param(ar_bytes([("debian-binary", b"2.0\n")] * 50), id="86-many-parts"),
        pytest.param(b"!<arch>\n" + b"x" * 60, id="87-no-header"),
        pytest.param(ar_bytes([("debian-binary", b"2.0\n"), ("data.tar.zst", b"(\xb5/\xfd" * 99)]), id="88-zstd"),
    ],
)
def test_damaged(refused: Callable[..., str], data: bytes) -> None:
    refused("deb", data, damaged=True)


def test_89_bomb(refused: Callable[..., str]) -> None:
    bomb = lzma.compress(tar_bytes([GOOD]) + b"\0" * (96 * MIB), preset=0)
    refused("deb", ar_bytes([("debian-binary", b"2.0\n"), ("data.tar.xz", bomb)]))


def test_90_absolute_links_stay_in_the_root(accepted: Callable[..., Path]) -> None:
    root = accepted("deb", deb_bytes([link("./etc/shells", "/etc/passwd")]))
    assert (root / "etc/shells").readlink().as_posix() == "passwd"
