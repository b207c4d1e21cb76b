"""Files in YAML: each fault with its line, and the key that was meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import BaseModel

from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.config.matrix import Matrix
from cpuwheels.config.patch_series import Series
from cpuwheels.config.rebuilders import Rebuilders
from cpuwheels.core.errors import MatrixError
from cpuwheels.core.models import Strict, load_yaml


class Part(Strict):
    """One part."""

    name: str
    size: int = 1


class Whole(Strict):
    """All of it."""

    title: str
    parts: tuple[Part, ...] = ()
    main: Part | None = None


def read(folder: Path, text: str | bytes) -> Whole:
    path = folder / "whole.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_yaml(path, Whole)


def test_a_file_becomes_a_model(tmp_path: Path) -> None:
    found = read(tmp_path, "title: T\nparts:\n  - name: a\n  - {name: b, size: 3}\nmain: {name: c}\n")
    assert found == Whole(title="T", parts=(Part(name="a"), Part(name="b", size=3)), main=Part(name="c"))


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("title: T\nparts:\n  - name: a\n    siez: 3\n", "unknown key 'parts.0.siez'; did you mean 'size'?", 4),
        ("title: T\nmain:\n  name: a\n  siez: 3\n", "unknown key 'main.siez'; did you mean 'size'?", 4),
        ("title: T\nxyz: 1\n", "unknown key 'xyz'; allowed: main, parts, title", 2),
        ("title: T\nparts:\n  - name: a\n    size: big\n", "parts.0.size: Input should be a valid integer", 4),
        ("parts: []\n", "title: Field required", 1),
        ("- a\n", "the file: Input should be", 1),
        ("title: T\nparts:\n  - name: a\n    size: true\n", "parts.0.size: Input should be a valid integer", 4),
        ('title: T\nparts:\n  - name: a\n    size: "3"\n', "parts.0.size: Input should be a valid integer", 4),
        ("title: T\nparts: []\ntitle: U\n", "whole.yaml is not valid YAML: the key 'title' is there twice", 3),
        ("title: T\nparts: [\n", "is not valid YAML", 3),
        (b"title: \xff\n", "is not UTF-8 text", None),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str | bytes, words: str, line: int | None) -> None:
    with pytest.raises(MatrixError) as raised:
        read(tmp_path, text)
    assert words in raised.value.what
    assert str(raised.value.where) == str(tmp_path / "whole.yaml") + (f":{line}" if line else "")


def test_all_faults_are_told_a_misspelt_key_first(tmp_path: Path) -> None:
    with pytest.raises(MatrixError) as raised:
        read(tmp_path, "titel: T\nparts:\n  - size: 2\n")
    assert raised.value.what == "whole.yaml:1: unknown key 'titel'; did you mean 'title'? (and 2 more)"
    assert len(raised.value.output.splitlines()) == 2
    assert "\\n" not in str(raised.value)


def test_an_empty_file_is_told_with_the_page_of_its_keys(tmp_path: Path) -> None:
    (tmp_path / "matrix.yaml").write_text("# nothing yet\n")
    with pytest.raises(MatrixError, match=r"matrix\.yaml is empty") as raised:
        load_yaml(tmp_path / "matrix.yaml", Matrix)
    assert raised.value.next_step == "its keys are in docs/reference/matrix.md"


@pytest.mark.parametrize("model", [Matrix, Series, DebianLock, Rebuilders])
def test_the_page_of_the_keys_is_there(tmp_path: Path, project_root: Path, model: type[BaseModel]) -> None:
    (tmp_path / "a.yaml").write_text("3\n")
    with pytest.raises(MatrixError) as raised:
        load_yaml(tmp_path / "a.yaml", model)
    assert (project_root / raised.value.next_step.split()[-1]).is_file()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match=r"cannot read none\.yaml"):
        load_yaml(tmp_path / "none.yaml", Whole)


def test_a_file_may_be_linked_but_not_be_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to("whole.yaml")
    (tmp_path / "whole.yaml").write_text("title: T")
    assert load_yaml(tmp_path / "link.yaml", Whole) == Whole(title="T")
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(MatrixError, match=r"cannot read pipe\.yaml: it is not a regular file"):
        load_yaml(tmp_path / "pipe.yaml", Whole)
