from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import SandboxError
from cpuwheels.sandbox.collect import read_left, require_plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("key")
    return path


@pytest.fixture
def left(tmp_path: Path) -> Path:
    folder = tmp_path / "left"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "answer.json").write_text("{}")
    return folder


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as named:
        named.bind(str(path))


def test_plain_files_are_taken(left: Path) -> None:
    require_plain(left, "setup.py")
    assert read_left(left / "deep/er/answer.json", "setup.py") == b"{}"
    assert read_left(left / "absent", "setup.py") is None


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda path, secret: path.symlink_to(secret), "a link"),
        (lambda path, secret: path.symlink_to(secret.parent), "a link"),
        (lambda path, _: os.mkfifo(path), "no plain file"),
        (lambda path, _: bind(path), "no plain file"),
    ],
    ids=["link", "link to a folder", "fifo", "socket"],
)
def test_anything_else_is_refused(left: Path, secret: Path, make: Callable[[Path, Path], None], what: str) -> None:
    make(left / "deep" / "odd", secret)
    with pytest.raises(SandboxError, match=f"setup.py left something that is {what}") as caught:
        require_plain(left, "setup.py")
    assert caught.value.where == str(left / "deep" / "odd")
    with pytest.raises(SandboxError):
        read_left(left / "deep" / "odd", "setup.py")


def test_the_folder_itself_is_no_link(left: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(left)
    with pytest.raises(SandboxError, match="no folder"):
        require_plain(tmp_path / "link", "setup.py")


def test_programs_with_others_rights_are_refused(left: Path) -> None:
    (left / "deep/er/answer.json").chmod(0o4755)
    with pytest.raises(SandboxError, match="rights of its owner"):
        require_plain(left, "setup.py")


def test_sizes_and_numbers_are_bounded(left: Path) -> None:
    with (left / "large").open("wb") as stream:
        stream.truncate(1 << 40)  # without a block on the disk
    with pytest.raises(SandboxError, match="more than"):
        require_plain(left, "setup.py")
    with pytest.raises(SandboxError, match="larger than"):
        read_left(left / "large", "setup.py", most_bytes=100)
    (left / "large").unlink()
    with pytest.raises(SandboxError, match="more than"):
        require_plain(left, "setup.py", most_files=2)


def test_names_that_are_no_text_are_named(left: Path) -> None:
    (left / b"\xff".decode(errors="surrogateescape")).symlink_to("secret")
    with pytest.raises(SandboxError) as caught:
        require_plain(left, "setup.py")
    str(caught.value).encode()
