from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import SourceError, UnsafeArchiveError
from cpuwheels.fetch.tarball import unpack_tar
from sample_source import EPOCH, add

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def archive(path: Path, *fills: Callable[[tarfile.TarFile], None], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:
        for fill in fills:
            fill(tar)
    return path


def member(name: str, content: bytes = b"", **attributes: object) -> Callable[[tarfile.TarFile], None]:
    return lambda tar: add(tar, name, content, **attributes)


def symlink(name: str, target: str) -> Callable[[tarfile.TarFile], None]:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


def hardlink(name: str, target: str) -> Callable[[tarfile.TarFile], None]:
    return member(name, type=tarfile.LNKTYPE, linkname=target)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "deep" / "out").mkdir(parents=True)
    return tmp_path / "deep" / "out"


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("prefix", ["", "./"])
def test_the_top_folder_falls_away(tmp_path: Path, out: Path, mode: str, prefix: str) -> None:
    path = archive(
        tmp_path / "a.tar",
        member(f"{prefix}top", type=tarfile.DIRTYPE, mode=0o755, mtime=EPOCH - 5),
        member(f"{prefix}top/sub/file", b"text", mtime=EPOCH - 9),
        member(f"{prefix}top/run.sh", b"#!/bin/sh\n", mode=0o755, mtime=EPOCH + 3),
        symlink(f"{prefix}top/sub/link", "../run.sh"),
        mode=mode,
    )
    assert unpack_tar(path, out) == EPOCH + 3
    assert names(out) == ["run.sh", "sub", "sub/file", "sub/link"]
    assert (out / "sub" / "link").read_text() == "#!/bin/sh\n"
    assert (out / "run.sh").stat().st_mode & 0o777 == 0o755


def test_a_hard_link_inside_works(tmp_path: Path, out: Path) -> None:
    unpack_tar(archive(tmp_path / "a.tar.gz", member("top/a", b"text"), hardlink("top/b", "top/a")), out)
    assert (out / "b").read_bytes() == b"text"


def test_special_permission_bits_and_owners_are_dropped(tmp_path: Path, out: Path) -> None:
    unpack_tar(archive(tmp_path / "a.tar.gz", member("top/su", b"x", mode=0o6777, uid=12345, gid=12345)), out)
    status = (out / "su").stat()
    assert status.st_mode & 0o7022 == 0
    assert status.st_uid == out.stat().st_uid


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/evil", b"x"),
        member("../evil", b"x"),
        member("top/../../evil", b"x"),
        member("top/../evil", b"x"),
        member("top/a/../../../evil", b"x"),
        symlink("top/evil", "/etc/passwd"),
        symlink("top/evil", "../../evil"),
        symlink("top/evil", "../evil"),
        symlink("top/sub/evil", "../../evil"),
        hardlink("top/evil", "/etc/passwd"),
        hardlink("top/evil", "../../evil"),
        hardlink("top/evil", "top/../../evil"),
        member("top/evil", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        member("top/evil", type=tarfile.BLKTYPE, devmajor=8, devminor=0),
        member("top/evil", type=tarfile.FIFOTYPE),
    ],
    ids=[
        "absolute",
        "parent",
        "out by two",
        "out by one",
        "out from below",
        "absolute link",
        "link out by two",
        "link out by one",
        "link out from below",
        "absolute hard link",
        "hard link out by two",
        "hard link out through the top",
        "character device",
        "block device",
        "pipe",
    ],
)
def test_what_would_leave_the_tree_is_refused(
    tmp_path: Path, out: Path, bad: Callable[[tarfile.TarFile], None]
) -> None:
    (out.parent / "evil").write_text("before")
    before = names(tmp_path)
    path = archive(tmp_path / "a.tar.gz", member("top/good", b"x"), bad)
    with pytest.raises(UnsafeArchiveError) as raised:
        unpack_tar(path, out)
    assert raised.value.where == str(path)
    assert raised.value.next_step
    assert set(names(tmp_path)) - set(before) <= {"a.tar.gz", "deep/out/good"}
    assert (out.parent / "evil").read_text() == "before"


def test_a_file_is_not_written_through_a_link_of_the_archive(tmp_path: Path, out: Path) -> None:
    (tmp_path / "deep" / "away").mkdir()
    path = archive(tmp_path / "a.tar.gz", symlink("top/door", "../away"), member("top/door/evil", b"x"))
    with pytest.raises(UnsafeArchiveError):
        unpack_tar(path, out)
    assert names(tmp_path / "deep" / "away") == []


@pytest.mark.parametrize(
    "fills",
    [
        (),
        (member("one/a"), member("two/b")),
        (member("top/a"), hardlink("top/b", "top/gone")),
        (member("top/a"), hardlink("top/b", "gone")),
    ],
    ids=["empty", "two tops", "link to nothing", "link to nothing above"],
)
def test_what_is_no_source_archive_is_told(
    tmp_path: Path, out: Path, fills: tuple[Callable[[tarfile.TarFile], None], ...]
) -> None:
    with pytest.raises(SourceError, match=r"a\.tar\.gz"):
        unpack_tar(archive(tmp_path / "a.tar.gz", *fills), out)


def _packed() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        # Bytes that do not pack well, so that a cut falls into the middle of the member.
        add(tar, "top/file", bytes(number * number % 251 for number in range(200_000)))
    return buffer.getvalue()


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 0xFF for byte in data[middle : middle + 64]) + data[middle + 64 :]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], _flipped, lambda _: b"<html>", lambda _: b""])
def test_a_damaged_archive_is_told(
    tmp_path: Path, out: Path, pack: Callable[[bytes], bytes], damage: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "a.tar.gz").write_bytes(damage(pack(_packed())))
    with pytest.raises(SourceError, match="not a whole source archive") as raised:
        unpack_tar(tmp_path / "a.tar.gz", out)
    assert raised.value.next_step
