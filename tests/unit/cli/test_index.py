"""Commands of the index: where it is, and what they print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from commit_wheels import wheel
from cpuwheels.cli import main
from cpuwheels.config.context import BuildContext
from cpuwheels.core.errors import BuildEnvironmentError, MatrixError, PublishError
from cpuwheels.index.bucket import Folder
from cpuwheels.index.rebuilders.collect import listed_wheels
from rebuilder_sites import MADE_UP, Rebuilder, rebuilders_file, serving
from small_wheels import write_wheel

A, B = "a" * 40, "b" * 40


def run(base: Path, root: Path, *words: str) -> object:
    with pytest.raises(SystemExit) as raised:
        main.main(["--root", str(root), "--dist", str(base / "dist"), *words])
    return raised.value.code


@pytest.mark.parametrize("nightly", [True, False])
def test_a_wheel_is_published_into_the_index_below_the_output(
    tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str], *, nightly: bool
) -> None:
    path = wheel(tmp_path)
    words = ["publish", str(path), "--no-locked", *(["--nightly"] if nightly else [])]
    assert run(tmp_path, project_root, *words) == 0
    index = tmp_path / "dist" / "index"
    assert (index / "latest" / "x86.json").is_file() == nightly
    told = capsys.readouterr().out
    assert told.startswith(f"{path.name}: published in {index} (")
    assert ", parity not run); in " in told
    assert run(tmp_path, project_root, *words) == 0
    assert f"{path.name}: was there already in {index}" in capsys.readouterr().out


def test_what_a_wheel_does_not_say_is_said_for_it(tmp_path: Path, project_root: Path, capsys) -> None:
    path = wheel(tmp_path, note_target="x86")
    words = ["publish", str(path), "--no-locked", "--index", str(tmp_path / "other")]
    assert run(tmp_path, project_root, *words, "--target", "arm") == PublishError.exit_code
    assert run(tmp_path, project_root, *words, "--commit", "f" * 40) == PublishError.exit_code
    assert run(tmp_path, project_root, *words, "--target", "x86", "--commit", f"{1:040x}") == 0
    assert (tmp_path / "other" / "index.json").is_file()
    assert capsys.readouterr().out


@pytest.mark.parametrize("written", [True, False])
def test_a_wheel_is_locked_when_it_is_there(
    tmp_path: Path,
    project_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    written: bool,
) -> None:
    asked: list[tuple[str, Path]] = []

    def write(context: BuildContext, path: Path) -> Path | None:
        asked.append((context.target.id, path))
        if written:
            return path.with_name("pylock.toml")
        context.reporter.announce("the wheel has no pylock.toml next to it: no index answers")
        return None

    monkeypatch.setattr("cpuwheels.pipeline.lock_wheel.write_pylock", write)
    path = write_wheel(
        tmp_path,
        "vllm",
        "0.32.0+cpu",
        {"vllm/_C.abi3.so": ""},
        "torch==2.13.0+cpu",
        tag="cp38-abi3-manylinux_2_28_x86_64",
    )
    words = ["--cache", str(tmp_path / "cache"), "pylock", "x86", str(path)]
    assert run(tmp_path, project_root, *words) == (0 if written else BuildEnvironmentError.exit_code)
    assert asked == [("x86", path)]
    told = capsys.readouterr()
    assert told.out == (f"{path.with_name('pylock.toml')}\n" if written else "")
    assert ("no index answers" in told.err) != written


@pytest.fixture
def index(tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An index with a wheel."""
    assert run(tmp_path, project_root, "publish", str(wheel(tmp_path)), "--nightly", "--no-locked") == 0
    assert capsys.readouterr().out
    return tmp_path / "dist" / "index"


def test_faults_are_named_and_repaired_only_if_that_is_asked_for(
    index: Path, tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, project_root, "check-index") == 0
    assert capsys.readouterr().out == f"{index}: nothing is wrong\n"
    page = index / "nightly" / "cpu" / "vllm" / "index.html"
    page.write_text("")
    for _ in range(2):
        assert run(tmp_path, project_root, "check-index") == PublishError.exit_code
        assert "the index has 1 fault\n" in capsys.readouterr().err
    assert run(tmp_path, project_root, "check-index", "--repair") == 0
    assert page.read_text()
    assert run(tmp_path, project_root, "check-index", "--index", str(index)) == 0


def test_an_index_is_served_where_it_is_asked_for(
    tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Path, int]] = []

    def serve(folder: Path, port: int, ready: Any) -> None:
        asked.append((folder, port))
        ready("http://127.0.0.1:1/")

    monkeypatch.setattr("cpuwheels.index.serve.serve", serve)
    assert run(tmp_path, project_root, "serve-index") == 0
    assert run(tmp_path, project_root, "serve-index", "--index", str(tmp_path / "a" / ".." / "b"), "--port", "0") == 0
    assert asked == [(tmp_path / "dist" / "index", 8000), (tmp_path / "b", 0)]
    assert capsys.readouterr().out == "http://127.0.0.1:1/\n" * 2


def test_rebuilders_are_asked_checked_and_required(
    tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, project_root, "publish", str(wheel(tmp_path)), "--no-locked")
    (published,) = listed_wheels(Folder(tmp_path / "dist" / "index")).values()
    one, two, liar = (Rebuilder(name, tmp_path / name) for name in ("one", "two", "liar"))
    for each in (one, two, liar):
        each.state(published, MADE_UP if each is liar else "")
    with serving(one.root) as one.url, serving(two.root) as two.url, serving(liar.root) as liar.url:
        file = str(rebuilders_file(tmp_path / "r.yaml", one, two, liar))
        assert run(tmp_path, project_root, "collect-rebuilds", "--rebuilders", file) == 0
    words = f"2 of 3 rebuilders agree; liar differs (sha256 {MADE_UP[:16]}…)"
    out = capsys.readouterr().out
    assert f"{published.filename}: {words}" in out
    assert "the pages of 1 wheel changed" in out
    # The sites are gone meanwhile.
    check = ["check-index", "--rebuilders", file]
    assert run(tmp_path, project_root, *check) == 0
    out = capsys.readouterr().out
    assert f"{published.filename}: {words}" in out
    assert "nothing is wrong" in out
    assert run(tmp_path, project_root, *check, "--require-rebuilders", "2") == 0
    assert run(tmp_path, project_root, *check, "--require-rebuilders", "3") == PublishError.exit_code
    err = capsys.readouterr().err
    assert f"{words}; 3 have to agree" in err
    assert "ask those who differ" in err
    assert run(tmp_path, project_root, "check-index") == 0
    gone = ["check-index", "--rebuilders", str(tmp_path / "gone.yaml")]
    assert run(tmp_path, project_root, *gone) == MatrixError.exit_code
