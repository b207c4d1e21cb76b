"""Trees as objects: the same bytes for the same tree, and nothing else is unpacked."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from cpuwheels.core.sealed_entry import MANIFEST
from cpuwheels.shared.archive import RefusedTreeError, pack, tree_id, tree_names, unpack_tree


def make_tree(folder: Path) -> Path:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "program").write_text("#!")
    (folder / "a" / "b" / "program").chmod(0o700)
    (folder / "a" / "text").write_text("text")
    (folder / "link").symlink_to("a/text")
    (folder / "empty").mkdir()
    return folder


def packed(folder: Path) -> bytes:
    stream = io.BytesIO()
    pack(folder, tree_names(folder), stream)
    return stream.getvalue()


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    tree, target = make_tree(tmp_path / "tree"), tmp_path / "target"
    target.mkdir()
    unpack_tree(io.BytesIO(packed(tree)), target)
    assert tree_id(target, ()) == tree_id(tree, ())
    assert tree_names(target) == tree_names(tree) == ["a/b/program", "a/text", "empty", "link"]
    assert os.access(target / "a" / "b" / "program", os.X_OK)


def test_times_owners_and_second_names_do_not_count(tmp_path: Path) -> None:
    first, second = make_tree(tmp_path / "first"), make_tree(tmp_path / "second")
    os.utime(second / "a" / "text", (1, 1))
    (second / "a" / "text").chmod(0o600)
    (tmp_path / "another name").hardlink_to(second / "a" / "text")
    (first / MANIFEST).write_text("{}")
    assert packed(first) == packed(second)
    assert tree_id(first, ()) == tree_id(second, ())


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / "a" / "text").write_text("other"),
        lambda tree: (tree / "a" / "text").chmod(0o755),
        lambda tree: (tree / "a" / "text").rename(tree / "a" / "name"),
        lambda tree: (tree / "empty").rmdir(),
        lambda tree: (tree / "more").mkdir(),
    ],
)
def test_everything_else_does(tmp_path: Path, change) -> None:
    tree = make_tree(tmp_path / "tree")
    before = packed(tree), tree_id(tree, ())
    change(tree)
    assert packed(tree) != before[0]
    assert tree_id(tree, ()) != before[1]


def test_what_differs_from_build_to_build_is_left_out_at_the_top_alone(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    before = tree_id(tree, {"jobs.jsonl"})
    (tree / "jobs.jsonl").write_text("1")
    assert tree_id(tree, {"jobs.jsonl"}) == before
    (tree / "a" / "jobs.jsonl").write_text("1")
    assert tree_id(tree, {"jobs.jsonl"}) != before


def test_a_second_name_in_the_same_tree_is_a_file_of_its_own(tmp_path: Path) -> None:
    tree, target = make_tree(tmp_path / "tree"), tmp_path / "target"
    (tree / "second").hardlink_to(tree / "a" / "text")
    target.mkdir()
    unpack_tree(io.BytesIO(packed(tree)), target)
    assert (target / "second").read_text() == "text"
    assert (target / "second").stat().st_nlink == 1


def test_only_files_links_and_folders_are_packed(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    os.mkfifo(tree / "pipe")
    with pytest.raises(RefusedTreeError, match="pipe is neither file, link nor folder"):
        packed(tree)


def archive(*members: tuple[str, bytes, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind == tarfile.SYMTYPE:
                member.linkname = content.decode()
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(stream.getvalue(), mtime=0)


@pytest.mark.parametrize(
    "content",
    [
        archive(("../outside", tarfile.REGTYPE, b"x")),
        archive(("/outside", tarfile.REGTYPE, b"x")),
        archive(("link", tarfile.SYMTYPE, b"../../outside")),
        archive((MANIFEST, tarfile.REGTYPE, b"{}")),
        archive(("device", tarfile.CHRTYPE, b"")),
        archive(("file", tarfile.REGTYPE, b"x"))[:-9],
        b"no archive at all",
        b"",
    ],
    ids=["above", "absolute", "link-out", "manifest", "device", "cut", "text", "empty"],
)
def test_what_is_no_tree_of_ones_own_is_refused(tmp_path: Path, content: bytes) -> None:
    target = tmp_path / "in" / "target"
    target.mkdir(parents=True)
    with pytest.raises(RefusedTreeError):
        unpack_tree(io.BytesIO(content), target)
    assert not (tmp_path / "in" / "outside").exists()
    assert not (tmp_path / "outside").exists()
