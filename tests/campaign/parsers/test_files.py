"""Files that a person, a download or upstream wrote: one message that names the file, and the line if it is known."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpuwheels.bisect.git_log import replayed
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.patch_series import load_series
from cpuwheels.core.errors import (
    BisectError,
    CpuwheelsError,
    DownloadError,
    MalformedDataError,
    MatrixError,
    UnsuitableSourceError,
    WheelError,
)
from cpuwheels.core.models import Strict, load_yaml
from cpuwheels.fetch.simple_index import index_files
from cpuwheels.fetch.wheel_tags import without_wheels
from cpuwheels.source.upstream_pins import read_pins
from cpuwheels.wheel.upstream_package import _list_files
from layout import ROOT
from loopback import Answer
from sample_source import write_tree

if TYPE_CHECKING:
    from pathlib import Path

    from loopback import Server

pytestmark = pytest.mark.timeout(30)


class Part(Strict):
    """Something with a size."""

    name: str
    size: int
    share: float = 0.5


class Whole(Strict):
    """A file of parts."""

    parts: tuple[Part, ...] = ()


GOOD = "parts:\n- {name: a, size: 1}\n"
BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 10)]
)


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        pytest.param(GOOD + "parts: []\n", "the key 'parts' is there twice", 3, id="01-key-twice"),
        pytest.param("parts:\n- {name: a, size: 1, name: b}\n", "'name' is there twice", 2, id="02-key-twice-inside"),
        pytest.param("parts: " + "[" * 100_000, "nested more than 64 levels", 1, id="03-deep-brackets"),
        pytest.param("".join(f"{' ' * n}-\n" for n in range(1000)), "nested more than 64", 65, id="04-deep-dashes"),
        pytest.param("parts: " + "{a: " * 100_000, "nested more than 64 levels", 1, id="05-deep-braces"),
        pytest.param(BOMB, "more than 1,000,000 values", 7, id="06-bomb-of-aliases"),
        pytest.param("parts: &a [*a]\n", "alias *a of nothing that is complete", 1, id="07-alias-of-itself"),
        pytest.param("parts:\n- {name: a, size: " + "9" * 5000 + "}", "5,000 digits", 2, id="08-huge-number"),
        pytest.param("parts:\n- {name: a, size: true}", "a valid integer", 2, id="09-true-as-a-size"),
        pytest.param('parts:\n- {name: a, size: "1"}', "a valid integer", 2, id="10-text-as-a-size"),
        pytest.param("parts:\n- {name: a, size: 1.0}", "a valid integer", 2, id="11-fraction-as-a-size"),
        pytest.param("parts:\n- {name: a, size: 1, share: .nan}", "nan is no number", 0, id="12-nan"),
        pytest.param("parts:\n- {name: a, size: 1, share: .inf}", "inf is no number", 0, id="13-infinity"),
        pytest.param("parts:\n- {name: 2026-11-25, size: 1}", "a value of the kind 'timestamp'", 2, id="14-date"),
        pytest.param("parts: !!python/object/apply:os.system [id]", "kind 'python/object", 1, id="15-python-object"),
        pytest.param(b"parts: \xff", "is not UTF-8 text", 0, id="16-not-utf-8"),
        pytest.param('parts: "\\ud800"', "is not valid YAML", 1, id="17-half-a-character"),
        pytest.param("# " + "x" * (8 << 20), "more than 8,388,608 bytes", None, id="18-huge"),
    ],
)
def test_a_configuration(text: str | bytes, words: str, line: int | None, tmp_path: Path) -> None:
    path = tmp_path / "whole.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(MatrixError) as raised:
        load_yaml(path, Whole)
    assert words in raised.value.what
    assert raised.value.where == (f"{path}:{line}" if line else str(path))
    assert raised.value.next_step
    path.write_text(GOOD)
    assert load_yaml(path, Whole).parts[0].size == 1


def test_19_a_configuration_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "whole.yaml")
    with pytest.raises(MatrixError, match="it is not a regular file"):
        load_yaml(tmp_path / "whole.yaml", Whole)
    with pytest.raises(MatrixError, match="it is not a regular file"):
        load_yaml(tmp_path, Whole)


@given(data=st.binary(max_size=300) | st.text("{}[]:,-&*!|>'\"\n 0123abc.", max_size=300).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_20_any_configuration(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "whole.yaml").write_bytes(data)
    try:
        assert isinstance(load_yaml(tmp_path / "whole.yaml", Whole), Whole)
    except MatrixError as error:
        message = str(error)
    else:
        message = "read"
    assert "whole.yaml" in message or message == "read"


def test_21_the_projects_own_files_are_as_strict() -> None:
    assert load_matrix(ROOT).targets
    assert load_series(ROOT)


DEEP_TOML = "packages = " + "[" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(DEEP_TOML, id="22-deep"),
        pytest.param("a." * 100_000 + "a = 1", id="23-dotted-key"),
        pytest.param("packages = []\npackages = []", id="24-key-twice"),
        pytest.param("size = " + "9" * 5000, id="25-huge-number"),
        pytest.param("size = inf", id="26-infinity"),
    ],
)
def test_a_lock(text: str) -> None:
    with pytest.raises(MalformedDataError, match="not valid TOML") as raised:
        without_wheels(text, {}, ())
    assert raised.value.where.startswith("pylock.toml")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[project]\nname = '../../../out'\n", id="27-name-that-is-a-path"),
        pytest.param("[project]\nname = ['vllm']\n", id="28-name-that-is-no-text"),
        pytest.param("project = 'vllm'\n", id="29-no-table"),
        pytest.param("x = " + "[" * 100_000, id="30-deep-project"),
        pytest.param("[project]\nname = 'vllm'\nname = 'b'\n", id="31-name-twice"),
    ],
)
def test_a_project_of_upstream(text: str, tmp_path: Path) -> None:
    copy = write_tree(tmp_path / "a" / "b" / "c" / "source", {"pyproject.toml": text})
    with pytest.raises((WheelError, MalformedDataError)):
        _list_files(copy)
    assert not list(tmp_path.rglob("SOURCES.txt"))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param('{"files": ' + "[" * 100_000, id="32-deep-page"),
        pytest.param("[]", id="33-page-that-is-a-list"),
        pytest.param('{"files": [], "files": []}', id="34-files-twice"),
        pytest.param('{"files": [{"filename": "\\ud800.whl", "url": "x"}]}', id="35-half-a-character-in-a-page"),
        pytest.param('{"files": [{"filename": "a.whl", "url": "x", "size": NaN}]}', id="36-nan-in-a-page"),
    ],
)
def test_a_page_of_an_index(page: str, server: Server) -> None:
    headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    address = server.serve("/simple/vllm/", Answer(page.encode(), headers=headers))
    with pytest.raises(DownloadError, match="cannot read the package index"):
        index_files(address, setting="X")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("requirements/cpu.txt", "torch==" + "9" * 5000, id="37-huge-version"),
        pytest.param("requirements/cpu.txt", "torch==1; nothing == 'x'\n", id="38-unknown-marker"),
        pytest.param("requirements/cpu.txt", "torch==1" + " " * 100_000 + "x\n", id="39-long-line"),
        pytest.param("requirements/cpu.txt", "x" * (5 << 20), id="40-huge-requirements"),
    ],
)
def test_requirements_of_upstream(file: str, text: str, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree", {file: text})
    with pytest.raises(UnsuitableSourceError):
        read_pins(tree, {"platform_machine": "x86_64"})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("FetchContent_Declare(oneDNN\n" + "\n" * 1_000_000, id="41-empty-lines-without-an-end"),
        pytest.param("FetchContent_Declare(oneDNN\n" * 100_000, id="42-calls-without-an-end"),
        pytest.param("FetchContent_Declare" + " " * 1_000_000, id="43-blanks-without-an-end"),
    ],
)
@pytest.mark.timeout(15)
def test_cmake_of_upstream_takes_linear_time(text: str, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree", {"cmake/cpu_extension.cmake": text})
    assert read_pins(tree, {"platform_machine": "x86_64"}).onednn == ()


@given(text=st.text("torch=<>!;()[]@,.*0123 \n'\"platform_machine#-ex", max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_44_any_requirements(text: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    write_tree(tree, {"requirements/cpu.txt": f"torch=={text}\n{text}"})
    try:
        found = read_pins(tree, {"platform_machine": "x86_64"}).torch
    except CpuwheelsError as error:
        found = str(error)
    assert found


def test_45_a_log_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(BisectError, match="it is not a regular file"):
        replayed(tmp_path / "log")
    (tmp_path / "deep").write_text('{"a":' * 100_000)
    with pytest.raises(BisectError, match="is no bisection's file"):
        replayed(tmp_path / "deep")
