from __future__ import annotations

import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click
import pytest

from cpuwheels.cli import build, main
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths, project_files
from cpuwheels.core.console import Reporter
from cpuwheels.core.digests import tree_digest
from cpuwheels.core.errors import CheckoutError, CompileError, MatrixError, PublishError, UnusableWheelError, UsageError
from cpuwheels.core.process import run
from loopback import Answer, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from dataclasses import replace
from pathlib import Path

TARGET = "x86"


def code_of(*arguments: str) -> object:
    with pytest.raises(SystemExit) as raised:
        main.main(list(arguments))
    return raised.value.code


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What the command line asked of the build command."""
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(build, "build_target", lambda *arguments, **_: calls.append(arguments))
    return calls


def test_options_reach_the_build(asked: list[tuple[object, ...]], tmp_path: Path) -> None:
    options = "--source 0.31.0 --sha256 ab --toolchain host --memory 8G --jobs 3 --locked --debug-symbols"
    paths = ["--root", str(tmp_path), "--cache", str(tmp_path / "c"), "--dist", str(tmp_path / "d")]
    assert code_of(*paths, "build", TARGET, *options.split()) == 0
    chosen = BuildOptions(
        source="0.31.0", sha256="ab", toolchain="host", memory="8G", jobs="3", locked=True, debug_symbols=True
    )
    assert asked == [(Paths(tmp_path, tmp_path / "c", tmp_path / "d"), TARGET, chosen)]


def test_without_options_the_matrix_and_the_machine_decide(
    asked: list[tuple[object, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CPUWHEELS_CACHE", str(tmp_path / "stores"))
    assert code_of("build", TARGET) == 0
    assert asked == [(Paths(project_files(), tmp_path / "stores", tmp_path / "dist"), TARGET, BuildOptions())]


@pytest.mark.parametrize("before", [0, 1, 4])
def test_shared_options_are_taken_before_and_behind_the_command(
    asked: list[tuple[object, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [("--root", "r"), ("--matrix", "m.yaml"), ("--cache", "c"), ("--dist", "d")]
    front, behind = ([word for pair in part for word in pair] for part in (pairs[:before], pairs[before:]))
    assert code_of(*front, "build", TARGET, *behind) == 0
    paths = Paths(tmp_path / "r", tmp_path / "c", tmp_path / "d", tmp_path / "m.yaml")
    assert asked == [(paths, TARGET, BuildOptions())]


def test_the_option_behind_the_command_wins(asked: list[tuple[object, ...]], tmp_path: Path) -> None:
    assert code_of("--root", str(tmp_path), "build", TARGET, "--root", str(tmp_path / "other")) == 0
    (((paths, *_)),) = asked
    assert isinstance(paths, Paths)
    assert paths.root == tmp_path / "other"


@pytest.mark.parametrize(
    ("line", "stage", "command"),
    [
        ("build x86", True, False),
        ("-q build x86", False, False),
        ("build x86 --quiet", False, False),
        ("-v build x86", True, True),
        ("build x86 --verbose", True, True),
        ("-q build x86 -v", True, True),
    ],
)
def test_quiet_and_verbose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd, line: str, stage: bool, command: bool
) -> None:
    def work(*_: object, **__: object) -> None:
        reporter = Reporter("x86")
        with reporter.stage("source", "for the test"):
            run(["true", "argument"], log=tmp_path / "log")
            reporter.announce("a note")
        print("result")
        raise CompileError("it failed")

    monkeypatch.setattr(build, "build_target", work)
    assert code_of(*line.split()) == CompileError.exit_code
    out, err = capfd.readouterr()
    assert out == "result\n"
    assert "error: it failed" in err
    assert ("source" in err, "a note" in err, "$ true argument" in err) == (stage, stage, command)


def test_what_verify_passes_on_is_what_was_chosen() -> None:
    chosen = BuildOptions(
        source="0.31.0",
        sha256="ab",
        toolchain="debian",
        memory="8G",
        locked=True,
        debug_symbols=True,
        compiler_cache="off",
        sandbox_required=True,
    )
    given: list[BuildOptions] = []

    @click.command()
    @build.build_options
    def built(**options: object) -> None:
        given.append(BuildOptions(**options))  # type: ignore[arg-type]

    wanted = [replace(chosen, jobs="3"), chosen, BuildOptions()]
    for options in wanted:
        built.main(options.as_arguments(), standalone_mode=False)
    assert given == wanted


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["build", "--help"], ["doctor", "-h"]])
def test_help_is_no_fault(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_of("--root", str(tmp_path), *arguments) == 0
    assert "Usage: cpuwheels" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["biuld", TARGET], "biuld"),
        (["build"], "TARGET"),
        (["build", TARGET, "--toolchain", "gcc"], "gcc"),
        (["build", TARGET, "--wat"], "--wat"),
        (["build", TARGET, "more"], "more"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(tmp_path: Path, arguments: list[str], words: str, capsys) -> None:
    assert code_of("--root", str(tmp_path), *arguments) == UsageError.exit_code
    assert words in capsys.readouterr().err


def test_every_command_works_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_of("matrix") == 0
    assert "x86: " in capsys.readouterr().out
    assert code_of("parity", TARGET) == UnusableWheelError.exit_code
    assert str(tmp_path / "dist" / TARGET) in capsys.readouterr().err


def test_a_matrix_of_ones_own(tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    text = (project_root / "matrix.yaml").read_text()
    (tmp_path / "matrix.yaml").write_text(text.replace("x86-64 Linux", "the working folder's"))
    (tmp_path / "other.yaml").write_text(text.replace("x86-64 Linux", "the option's"))
    assert code_of("matrix") == 0
    assert "the working folder's" in capsys.readouterr().out
    assert code_of("matrix", "--matrix", "other.yaml") == 0
    assert "the option's" in capsys.readouterr().out
    assert code_of("matrix", "--matrix", "no.yaml") == MatrixError.exit_code
    assert "cannot read no.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["schema", "lock", "serve x86 --relock"])
def test_what_writes_into_the_project_needs_a_checkout(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, line: str
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    before = tree_digest(packaged)
    assert code_of(*line.split()) == CheckoutError.exit_code
    assert "in a checkout" in capsys.readouterr().err
    assert tree_digest(packaged) == before


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("--help", 0, "Usage: cpuwheels"),
        ("build --help", 0, "Usage: cpuwheels build"),
        ("--version", 0, f"cpuwheels {importlib.metadata.version('cpuwheels')} (commit "),
        ("serve-index", PublishError.exit_code, "there is no index"),
        ("serve-index --index wheels", PublishError.exit_code, "there is no index"),
        ("check-index", PublishError.exit_code, "index.json"),
        ("check-index --index wheels", PublishError.exit_code, "index.json"),
    ],
)
def test_what_needs_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, line: str, code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_of(*line.split()) == code
    captured = capsys.readouterr()
    assert words in captured.out + captured.err


def test_an_error_is_one_message_and_its_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CompileError("a [bold] b", where="here", next_step="do", log=tmp_path / "x.log", output="one\ntwo")

    monkeypatch.setattr(build, "build_target", fail)
    assert code_of("--root", str(tmp_path), "build", TARGET) == CompileError.exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "error: a [bold] b",
        "  where: here",
        "    | one",
        "    | two",
        f"  log:   {tmp_path / 'x.log'}",
        "  next:  do",
    ]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, EOFError, click.Abort])
def test_an_interruption_is_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, stop: type[BaseException]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise stop

    monkeypatch.setattr(build, "build_target", fail)
    assert code_of("--root", str(tmp_path), "build", TARGET) == 130
    message = capsys.readouterr().err
    assert "stopped" in message
    assert "run the same command again" in message


def test_signals_are_as_they_were_afterwards(asked: list[tuple[object, ...]], tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    code_of("--root", str(tmp_path), "build", TARGET)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
    assert asked


def test_the_command_is_installed_under_its_name() -> None:
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="cpuwheels")
    assert entry.value == "cpuwheels.cli.main:main"


@pytest.fixture
def fetching(server: Server, tmp_path: Path, project_root: Path) -> Iterator[subprocess.Popen[str]]:
    """A real run that waits for the rest of a download."""
    text = (project_root / "matrix.yaml").read_text()
    url = server.serve("/vllm-0.32.0.tar.gz", Answer(b"x" * 100_000, announced=200_000, held_open=True))
    start = text.index("urls: [", text.index('version: "0.32.0"')) + len("urls: [")
    text = text[:start] + url + text[text.index("]", start) :]
    text = re.sub(r"worst_peak: \S+", "worst_peak: 1M", text).replace(
        "system: Linux\n    machine: x86_64", f"system: {os.uname().sysname}\n    machine: {os.uname().machine}"
    )
    (tmp_path / "matrix.yaml").write_text(text)
    (tmp_path / "locks").symlink_to(project_root / "locks")
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches" / "series.yaml").write_text("patches: []\n")
    command = [sys.executable, "-m", "cpuwheels", "--root", tmp_path, "--cache", tmp_path / "cache", "build", TARGET]
    command += ["--source", "0.32.0"]  # without it, torch would be looked for first
    child = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not list((tmp_path / "cache").glob("downloads/.new-*/.part-*/part")):
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield child
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_leaves_nothing_half_written(
    fetching: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    fetching.send_signal(number)
    out, message = fetching.communicate(timeout=60)
    assert fetching.returncode == 130
    assert out == ""
    assert "source stopped" in message
    assert "run the same command again" in message
    assert "Traceback" not in message
    assert [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    assert not (tmp_path / "dist" / "x86").exists()
