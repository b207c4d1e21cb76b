"""Regular files are read whole; everything else is refused at once."""

import os
import socket
from pathlib import Path

import pytest

from cpuwheels.core.plain_file import NotPlainError, open_plain, read_plain


def test_a_regular_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * (3 << 20))
    assert read_plain(file, 3 << 20) == b"x" * (3 << 20)
    with pytest.raises(NotPlainError, match="more than 3,145,727 bytes") as caught:
        read_plain(str(file), (3 << 20) - 1)
    assert caught.value.filename == str(file)
    (tmp_path / "empty").touch()
    assert read_plain(tmp_path / "empty", 0) == b""


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to("secret")
    with pytest.raises(NotPlainError, match="symbolic link"):
        read_plain(tmp_path / "link", 100)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(NotPlainError, match="symbolic link"):
        read_plain(tmp_path / "loop", 100)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as made:
        place = Path.cwd()
        os.chdir(tmp_path)  # a socket's path may have some hundred bytes only
        try:
            made.bind("socket")
        finally:
            os.chdir(place)
    for path in (tmp_path / "fifo", tmp_path / "socket", tmp_path, Path("/dev/zero")):
        with pytest.raises(NotPlainError, match="not a regular file"):
            read_plain(path, 100)


def test_what_is_not_there_is_said_as_usual(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_plain(tmp_path / "file", 100)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else None
    (tmp_path / "file").write_text("text")
    os.close(open_plain(tmp_path / "file"))
    with pytest.raises(NotPlainError):
        open_plain(tmp_path)
    if before is not None:
        assert len(list(Path("/proc/self/fd").iterdir())) == before
