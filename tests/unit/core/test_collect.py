"""What an untrusted process left: plain files are taken over, and nothing else is."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.collect import Limits, collect_tree, read_regular

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMITS = Limits(files=10, size=1000)


@pytest.fixture
def left(tmp_path: Path) -> Path:
    folder = tmp_path / "left"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "one.txt").write_text("one")
    (folder / "a" / "b" / "run").write_text("two")
    (folder / "a" / "b" / "run").chmod(0o4755)
    return folder


def test_plain_files_are_copied_with_nothing_of_their_mode_but_whether_they_run(left: Path, tmp_path: Path) -> None:
    assert collect_tree(left, tmp_path / "kept", LIMITS) == ["a/b/run", "a/one.txt"]
    assert (tmp_path / "kept/a/one.txt").read_text() == "one"
    assert (tmp_path / "kept/a/b/run").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "kept/a/one.txt").stat().st_mode & 0o7777 == 0o644
    assert (tmp_path / "kept/a/one.txt").stat().st_nlink == 1
    (left / "a/one.txt").write_text("changed later")
    assert (tmp_path / "kept/a/one.txt").read_text() == "one"


def a_link(left: Path) -> None:
    (left / "secret").symlink_to("/etc/passwd")


def a_folder_link(left: Path) -> None:
    (left / "a/etc").symlink_to("/etc")


def a_dangling_link(left: Path) -> None:
    (left / "nothing").symlink_to("nowhere")


def a_pipe(left: Path) -> None:
    os.mkfifo(left / "a/pipe")


def a_socket(left: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()  # noqa: PTH109
        os.chdir(left)  # the path of a socket is short
        try:
            one.bind("socket")
        finally:
            os.chdir(here)


def too_many(left: Path) -> None:
    for number in range(11):
        (left / f"{number}").write_text("")


def too_large(left: Path) -> None:
    (left / "large").write_bytes(b"x" * 1001)


def endless(left: Path) -> None:
    with (left / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)


def together_too_large(left: Path) -> None:
    for name in "xyz":
        (left / name).write_bytes(b"x" * 400)


def an_escape(left: Path) -> None:
    (left / "\x1b[2J").write_text("")


def a_new_line(left: Path) -> None:
    (left / "a\nb").write_text("")


def no_text(left: Path) -> None:
    (left / os.fsdecode(b"\xff")).write_text("")


def deep(left: Path) -> None:
    folder = left.joinpath(*["d"] * 70)
    folder.mkdir(parents=True)


ATTACKS = [
    (a_link, "secret is a symbolic link"),
    (a_folder_link, "a/etc is a symbolic link"),
    (a_dangling_link, "nothing is a symbolic link"),
    (a_pipe, "a/pipe is a pipe"),
    (a_socket, "socket is a socket"),
    (too_many, "more than 10 files"),
    (too_large, "large is larger"),
    (endless, "sparse is larger"),
    (together_too_large, "z is larger"),
    (an_escape, "no plain name"),
    (a_new_line, "no plain name"),
    (no_text, "no plain name"),
    (deep, "nested deeper"),
]


@pytest.mark.parametrize(("attack", "words"), ATTACKS, ids=[attack.__name__ for attack, _ in ATTACKS])
def test_anything_else_is_refused(left: Path, tmp_path: Path, attack: Callable[[Path], None], words: str) -> None:
    attack(left)
    with pytest.raises(ValueError, match=words):
        collect_tree(left, tmp_path / "kept", LIMITS)


def test_the_folder_itself_may_not_be_a_link(left: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(left)
    with pytest.raises(ValueError, match="link cannot be opened as a folder"):
        collect_tree(tmp_path / "link", tmp_path / "kept", LIMITS)
    with pytest.raises(ValueError, match="absent cannot be opened as a folder"):
        collect_tree(tmp_path / "absent", tmp_path / "other", LIMITS)


def test_one_file_is_read_up_to_its_limit(left: Path, tmp_path: Path) -> None:
    assert read_regular(left / "a/one.txt", 3) == b"one"
    (tmp_path / "link").symlink_to(left / "a/one.txt")
    os.mkfifo(tmp_path / "pipe")
    for path, words in {
        left / "a/b/run": "run is larger",
        tmp_path / "link": "link cannot be opened",
        tmp_path / "pipe": "pipe is a pipe",
        tmp_path: "is a folder",
        tmp_path / "absent": "absent cannot be opened",
    }.items():
        with pytest.raises(ValueError, match=words):
            read_regular(path, 2)
