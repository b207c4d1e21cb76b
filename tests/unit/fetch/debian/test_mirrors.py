from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import UsageError
from cpuwheels.fetch.debian.mirrors import mirrors

if TYPE_CHECKING:
    from pathlib import Path

CONFIGURED = ("http://deb.debian.org/debian", "https://snapshot.debian.org/archive/debian/20250901T000000Z")

DEB822 = """\
Types: deb
# a comment inside a paragraph
URIs: http://ftp.example.org/debian/ https://second.example.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://ftp.example.org/debian-security
Suites: bookworm-security
Components: main

Types: deb
Enabled: no
URIs: http://off.example.org/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://sources.example.org/debian
Suites: bookworm
Components: main
"""

OURS = """\
deb [arch=amd64 signed-by=/k/debian-archive-keyring.gpg] file:///srv/mirror/debian/ stable main # ours
"""

INLINE_KEY = """\
Types: deb
URIs: https://x.example.org/debian
Suites: trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQ
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("debian.sources", DEB822, ["http://ftp.example.org/debian", "https://second.example.org/debian"]),
        ("a.list", "deb http://ftp.example.org/debian trixie main contrib\n", ["http://ftp.example.org/debian"]),
        ("a.list", OURS, ["file:///srv/mirror/debian"]),
        ("a.list", "deb https://snapshot.debian.org/archive/debian/20240101T000000Z sid main", None),
        ("a.list", "# deb http://ftp.example.org/debian trixie main\n", []),
        ("a.list", "deb-src http://ftp.example.org/debian trixie main\n", []),
        ("a.list", "deb http://ftp.example.org/debian trixie-security main\n", []),
        ("a.list", "deb http://archive.example.org/ubuntu noble main\n", []),
        ("a.list", "deb [signed-by=/etc/apt/docker.asc] https://d.example.org/linux/debian trixie main", []),
        ("a.list", "deb [signed-by=/k/debian-tools.asc] https://d.example.org/linux/debian trixie main", []),
        ("a.list", "deb https://d.example.org/linux/debian trixie stable\n", []),
        ("a.list", "deb mirror+file:/etc/apt/mirrors/debian trixie main\n", []),
        ("a.list", "deb cdrom:[Debian 12]/ bookworm main\n", []),
        ("other.sources", INLINE_KEY, []),
        ("other.txt", DEB822, []),
    ],
)
def test_apt_sources_give_debian_mirrors_only(tmp_path: Path, name: str, text: str, expected: list[str] | None) -> None:
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (folder / name).write_text(text)
    if expected is None:
        expected = ["https://snapshot.debian.org/archive/debian/20240101T000000Z"]
    assert list(mirrors((), {}, tmp_path)) == expected


def test_order_is_variable_then_apt_then_matrix_each_once(tmp_path: Path) -> None:
    tmp_path.joinpath("sources.list").write_text(
        "deb http://apt.example.org/debian trixie main\ndeb http://deb.debian.org/debian/ trixie main\n"
    )
    environ = {"CPUWHEELS_DEBIAN_MIRROR": "file:///srv/debian/  http://first.example.org/debian"}
    assert mirrors(CONFIGURED, environ, tmp_path) == (
        "file:///srv/debian",
        "http://first.example.org/debian",
        "http://apt.example.org/debian",
        "http://deb.debian.org/debian",
        CONFIGURED[1],
    )


def test_without_apt_the_matrix_decides(tmp_path: Path) -> None:
    assert mirrors(CONFIGURED, {}, tmp_path / "absent") == CONFIGURED


def test_a_mirror_that_is_no_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'/srv/debian' is not a Debian mirror") as caught:
        mirrors(CONFIGURED, {"CPUWHEELS_DEBIAN_MIRROR": "/srv/debian"}, tmp_path)
    assert "CPUWHEELS_DEBIAN_MIRROR" in caught.value.where
