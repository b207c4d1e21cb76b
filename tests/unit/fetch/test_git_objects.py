"""Objects are compared with their names."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from cpuwheels.fetch.git import Git
from cpuwheels.fetch.git_objects import _Stream, misnamed_objects
from hostile_git import raw_object
from sample_source import git

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("plain_git")


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_objects(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", f"--object-format={kind}")
    contents = [b"", b"\n", b"a\n\nb", b"x" * (40 << 20), b"last\n"]
    names = [raw_object(folder, "blob", content) for content in contents]
    assert misnamed_objects(Git(folder), names) == []
    for name, other in ((names[1], names[4]), (names[3], names[0])):
        path = folder / ".git" / "objects" / name[:2] / name[2:]
        path.unlink()
        path.write_bytes((folder / ".git" / "objects" / other[:2] / other[2:]).read_bytes())
    gone = "0" * len(names[0])
    assert misnamed_objects(Git(folder), [*names, gone]) == [
        f"{names[1]} has the content of {names[4]}",
        f"{names[3]} has the content of {names[0]}",
        f"{gone} is not there",
    ]


def test_an_object_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    name = raw_object(folder, "blob", b"x" * 1000)
    path = folder / ".git" / "objects" / name[:2] / name[2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:10])
    assert misnamed_objects(Git(folder), [name])


def test_much_that_comes_at_once_takes_no_longer_than_in_small_parts() -> None:
    """A command's output comes in parts of 16 MiB, with thousands of objects in each."""
    count, size = 2_000, 8_000
    text = (b"x" * size + b"\n") * count

    def seconds(part: int) -> float:
        stream = _Stream(text[at : at + part] for at in range(0, len(text), part))
        began = time.process_time()
        for _ in range(count):
            assert sum(map(len, stream.bytes(size))) == size
            assert stream.line() == b""
        return time.process_time() - began

    assert seconds(len(text)) < 20 * seconds(1 << 16)
