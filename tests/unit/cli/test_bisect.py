"""The command line of a bisection: what reaches it, and what is printed of its result."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.cli import main
from cpuwheels.config.options import BisectOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.errors import StoppedError, UsageError
from cpuwheels.core.tables import Column, Table

RENAMED = {"jobs": "--commits-at-once"}
ENDS = ["--good", "0.31.0", "--bad", "main"]
LONG = f"nox -s bisect -- --run {'x' * 200}"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The bisections that were asked for."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    calls: list[tuple[Any, ...]] = []

    def run(
        paths: Paths, _matrix: object, name: str, options: BisectOptions, _reporter: object, executor: object
    ) -> Any:
        assert executor is None
        calls.append((paths, name, options))
        return SimpleNamespace(as_lines=lambda: ["[bold] is the first bad commit", LONG], found=True)

    monkeypatch.setattr("cpuwheels.bisect.bisection.run_bisection", run)
    monkeypatch.setattr("cpuwheels.bisect.report.write_bisection", lambda _: [Path("result.html")])
    monkeypatch.setattr("cpuwheels.bisect.report.probe_table", lambda _: Table((Column("commit"),)))
    return calls


def run(root: Path, *arguments: str) -> object:
    with pytest.raises(SystemExit) as raised:
        main.main(["--root", str(root), "bisect", *ENDS, *arguments])
    return raised.value.code


def test_without_options_the_defaults_decide_for_this_machines_target(asked: list, project_root: Path) -> None:
    assert run(project_root, "--run", "true") == 0
    ((paths, name, options),) = asked
    assert (paths.root, name) == (project_root, "arm")
    assert options == BisectOptions(good="0.31.0", bad="main", run="true")


def test_options_reach_the_bisection(asked: list, project_root: Path) -> None:
    given = {
        "run": "true",
        "parity": "rms_norm",
        "bench": "silu",
        "serve": "opt",
        "prompt": "a text",
        "regress": "crash",
        "slower": 1.5,
        "library": "_C_AVX2",
        "level": "deep",
        "branch": "side",
        "jobs": 3,
        "timeout": 5.0,
        "log": Path("log"),
        "out": Path("out"),
        "repo": Path("repo"),
        "index": "https://wheels.invalid",
        "kernels_from": "dist",
        "toolchain": "debian",
        "memory": "8G",
    }
    words = [
        word for name, value in given.items() for word in (RENAMED.get(name, f"--{name.replace('_', '-')}"), str(value))
    ]
    flags = [
        "--all-parents",
        "--no-requirements",
        "--locked",
        "--allow-sdists",
        "--pass-env",
        "TOKEN",
        "--target",
        "x86",
    ]
    flags += [
        "--patched-kernels",
        "--allow-unsandboxed",
        "--unconfined",
        "--readable",
        "a",
        "--readable",
        "b",
        "--writable",
        "c",
    ]
    assert run(project_root, *words, *flags) == 0
    ((_, name, options),) = asked
    expected = BisectOptions(
        good="0.31.0",
        bad="main",
        all_parents=True,
        requirements=False,
        locked=True,
        allow_sdists=True,
        env=("TOKEN",),
        readable=(Path("a"), Path("b")),
        writable=(Path("c"),),
        unconfined=True,
        allow_unsandboxed=True,
        patched_kernels=True,
        **given,  # type: ignore[arg-type]
    )
    assert (name, options) == ("x86", expected)
    default = BisectOptions(good="0.31.0", bad="main")
    same = [
        field.name
        for field in dataclasses.fields(options)
        if getattr(options, field.name) == getattr(default, field.name)
    ]
    assert same == ["good", "bad"], "these were not given another value"


def test_the_result_is_printed_as_it_is(asked: list, project_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(project_root, "--run", "true") == 0
    assert asked
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-2:] == ["[bold] is the first bad commit", LONG]
    assert "reports: result.html" in captured.err


@pytest.mark.parametrize(
    "words",
    [["--slower", "1"], ["--timeout", "0"], ["--commits-at-once", "0"], ["--level", "most"], ["--regress", "all"]],
)
def test_values_that_mean_nothing_are_refused(asked: list, project_root: Path, words: list[str]) -> None:
    assert run(project_root, "--run", "true", *words) != 0
    assert asked == []


def test_the_good_end_is_enough(asked: list, project_root: Path) -> None:
    with pytest.raises(SystemExit) as raised:
        main.main(["--root", str(project_root), "bisect", "--good", "0.31.0"])
    assert raised.value.code == 0
    ((_, _, options),) = asked
    assert options == BisectOptions(good="0.31.0")
    assert options.by_person


def test_quit_ends_it_as_ctrl_c_does(
    monkeypatch: pytest.MonkeyPatch, asked: list, project_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise StoppedError("stopped")

    assert asked == []
    monkeypatch.setattr("cpuwheels.bisect.bisection.run_bisection", stop)
    assert run(project_root) == StoppedError.exit_code
    said = capsys.readouterr().err
    assert "error" not in said
    assert "run the same command again" in said


@pytest.mark.parametrize("option", [("--memory", "8G"), ("--kernels-from", "wheels")])
def test_a_farms_workers_have_settings_of_their_own(
    asked: list, project_root: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, str]
) -> None:
    assert run(project_root, "--farm", "tls://127.0.0.1:1", *option) == UsageError.exit_code
    assert f"where: {option[0]}" in capsys.readouterr().err
    assert asked == []
