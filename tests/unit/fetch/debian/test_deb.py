from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from bad_tars import deb_bytes, entry
from bad_tars import hard_link as hard_link_entry
from bad_tars import link as link_entry
from cpuwheels.core.errors import ToolchainError, UnsafeArchiveError
from cpuwheels.fetch.debian.deb import read_member, unpack_deb
from deb_writer import Deb, device, hard_link, link, plain

if TYPE_CHECKING:
    import tarfile
    from pathlib import Path


def test_files_links_and_modes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    deb = Deb(
        files={"usr/bin/tool": "#!/bin/sh\n", "usr/lib/x/libm.so.6": "elf", "usr/include/a.h": "a"},
        links={"usr/bin/alias": "tool", "usr/lib/x/libm.so": "/usr/lib/x/libm.so.6", "etc/root": "/"},
        members=[hard_link("./usr/bin/twin", "./usr/bin/tool")],
    )
    unpack_deb(deb.write(tmp_path / "a.deb"), root)
    assert (root / "usr/bin/tool").stat().st_mode & 0o7777 == 0o755
    assert (root / "usr/bin/twin").read_text() == "#!/bin/sh\n"
    assert (root / "usr/bin/alias").readlink().as_posix() == "tool"
    assert (root / "usr/lib/x/libm.so").readlink().as_posix() == "libm.so.6"
    assert (root / "etc/root").resolve() == root.resolve()


def test_documentation_and_what_the_lock_leaves_out_stay_away(tmp_path: Path) -> None:
    kept = "usr/share/misc/magic"
    deb = Deb(files=dict.fromkeys([kept, "usr/share/doc/a/copyright", "usr/share/man/man1/a", "usr/lib/a/b/x.a"], ""))
    unpack_deb(deb.write(tmp_path / "a.deb"), tmp_path / "root", ["usr/lib/*.a"])
    files = [path for path in (tmp_path / "root").rglob("*") if path.is_file()]
    assert files == [tmp_path / "root" / kept]


@pytest.mark.parametrize(
    "member",
    [
        plain("../outside"),
        plain("./usr/../../outside"),
        plain("/etc/passwd"),
        link("./usr/up", "../../outside"),
        hard_link("./usr/up", "../../outside"),
        device("./dev/null"),
    ],
    ids=["up", "up-inside", "absolute", "link-up", "hard-link-up", "device"],
)
def test_unsafe_members_are_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    package = Deb(members=[member]).write(tmp_path / "bad.deb")
    with pytest.raises(UnsafeArchiveError, match=r"bad\.deb") as caught:
        unpack_deb(package, tmp_path / "root")
    assert "nox -s lock" in caught.value.next_step
    assert not (tmp_path / "outside").exists()


def test_a_link_of_one_package_does_not_lead_another_outside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "usr").symlink_to(tmp_path)
    with pytest.raises(UnsafeArchiveError):
        unpack_deb(Deb(files={"usr/x": "x"}).write(tmp_path / "a.deb"), root)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("cut", [3, 100, 150, -90])
def test_a_damaged_package_is_named(tmp_path: Path, cut: int) -> None:
    package = Deb(files={"usr/a": "a" * 1000}).write(tmp_path / "cut.deb")
    package.write_bytes(package.read_bytes()[:cut])
    with pytest.raises(ToolchainError, match=r"cut\.deb is not a whole Debian package"):
        unpack_deb(package, tmp_path / "root")


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=5), st.integers(0, 400), st.binary())
def test_whatever_the_bytes_there_is_a_result_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], cut: int, other: bytes
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    data = bytearray(
        deb_bytes([entry("./usr/a", b"a"), link_entry("./usr/b", "a"), hard_link_entry("./usr/c", "./usr/a")])
    )
    for place, value in changes:
        data[place % len(data)] = value
    for mutated in (bytes(data[: len(data) - cut]), bytes(data) + other, b"!<arch>\n" + other, other):
        (folder / "a.deb").write_bytes(mutated)
        for attempt in (
            lambda: unpack_deb(folder / "a.deb", folder / "root"),
            lambda: read_member(folder / "a.deb", "usr/a"),
        ):
            with contextlib.suppress(ToolchainError, UnsafeArchiveError):
                attempt()
    assert {path.name for path in folder.iterdir()} <= {"a.deb", "root"}


def test_a_file_that_is_read_has_a_largest_size(tmp_path: Path) -> None:
    package = Deb(files={"usr/a": "a" * 1000}).write(tmp_path / "a.deb")
    assert read_member(package, "usr/a") == b"a" * 1000
    with pytest.raises(UnsafeArchiveError, match="usr/a has 1000 bytes; 999 are the limit"):
        read_member(package, "usr/a", most=999)
    with pytest.raises(ToolchainError, match="has no usr/b"):
        read_member(package, "usr/b")
