"""Commands that build: what reaches the pipeline, and what is printed where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cpuwheels.cli import main
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.errors import ReproducibilityError, UsageError
from cpuwheels.pipeline.variation.axes import AXES, DEFAULT
from cpuwheels.pipeline.variation.second_build import SecondBuildError
from cpuwheels.verification.verified import Verified
from fake_builds import PLACE, Builds
from recorded_wheel import write_build
from sample_results import verified


class Builder:
    """Builds that are noted, of wheels that are compared with others."""

    def __init__(self, base: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base, self.root, self.builds = base, root, Builds()
        self.wheel = write_build(base / "built")
        self.builds.wheel = lambda *_: self.wheel
        self.again: list[tuple[Any, ...]] = []
        self.developed: list[tuple[Any, ...]] = []
        self.second_error: SecondBuildError | None = None
        self.differing: tuple[str, ...] = ()
        monkeypatch.setattr("platform.machine", lambda: "aarch64")
        monkeypatch.setattr("platform.system", lambda: "Linux")
        monkeypatch.setattr(PLACE, self.builds)
        monkeypatch.setattr("cpuwheels.pipeline.verify.verify_wheel", self._verify)
        monkeypatch.setattr("cpuwheels.pipeline.develop.develop", self._develop)

    def run(self, *words: str) -> object:
        with pytest.raises(SystemExit) as raised:
            main.main(["--root", str(self.root), "--dist", str(self.base), *words])
        return raised.value.code

    def _verify(
        self, paths: Paths, _matrix: object, target: str, options: BuildOptions, wheel: Path, axes: Any, _: object
    ) -> Verified:
        self.again.append((paths.dist, target, options, wheel, [axis.name for axis in axes]))
        if self.second_error:
            raise self.second_error
        return verified(*self.differing)

    def _develop(
        self,
        paths: Paths,
        _matrix: object,
        name: str,
        folder: Path,
        options: BuildOptions,
        _reporter: object,
        **more: Any,
    ) -> Path:
        self.developed.append((paths.dist, name, folder, options, more))
        return folder / ".venv" / "bin" / "python"


@pytest.fixture
def builder(tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    return Builder(tmp_path, project_root, monkeypatch)


def test_the_wheels_path_alone_is_on_stdout(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    assert builder.run("build", "x86", "--memory", "8G") == 0
    (asked,) = builder.builds.asked
    assert (asked.target, asked.options, asked.more) == ("x86", BuildOptions(memory="8G"), {"check": True})
    captured = capsys.readouterr()
    assert captured.out == f"{builder.wheel}\n"
    assert f"  sha256    {'0' * 64}" in captured.err
    assert "Install it on a machine with Linux x86_64, with uv or with pip:" in captured.err
    assert f"built {builder.wheel.name}" in captured.err


def test_a_bisections_wheel_is_not_loaded(builder: Builder) -> None:
    assert builder.run("build", "x86", "--no-summary", "--no-check") == 0
    (asked,) = builder.builds.asked
    assert asked.more == {"check": False}


@pytest.mark.parametrize(("words", "shown"), [([], True), (["--no-summary"], False)])
def test_what_to_do_next_is_shown_for_a_wheel_of_this_machine(
    builder: Builder, capsys: pytest.CaptureFixture[str], words: list[str], *, shown: bool
) -> None:
    assert builder.run("build", "arm", *words) == 0
    assert (f"built {builder.wheel.name}" in capsys.readouterr().err) == shown


def test_two_builds_of_the_same_options_are_compared(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    assert builder.run("verify", "x86", "--toolchain", "debian", "--locked") == 0
    options = BuildOptions(toolchain="debian", locked=True)
    assert [asked.options for asked in builder.builds.asked] == [options]
    ((dist, target, chosen, wheel, axes),) = builder.again
    assert (dist, target, chosen, wheel) == (builder.base, "x86", options, builder.wheel)
    assert axes == [axis.name for axis in AXES if axis.name in DEFAULT]
    captured = capsys.readouterr()
    assert f"two builds, the same bytes: sha256 {'0' * 64}" in captured.err
    assert f"built {builder.wheel.name}" not in captured.err


def test_what_was_varied_and_what_was_not_is_shown(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    assert builder.run("verify", "x86", "--vary", "umask,hostname,cpus") == 0
    ((*_, axes),) = builder.again
    assert axes == ["umask", "hostname", "cpus"]
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert ["umask", "yes", "022", "→", "077"] in lines
    assert ["cpus", "not", "varied", "there", "is", "one", "CPU"] in lines


def test_an_axis_that_there_is_not_costs_no_build(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    assert builder.run("verify", "x86", "--vary", "umsak") == UsageError.exit_code
    assert builder.builds.asked == []
    assert "there is no axis umsak" in capsys.readouterr().err


def test_the_axes_are_listed(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    assert builder.run("verify", "--list-axes") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in lines[:-1]] == [[axis.name, axis.about] for axis in AXES]
    assert lines[-1] == f"without --vary: {', '.join(DEFAULT)}"
    assert builder.builds.asked == []


def test_the_second_builds_failure_is_the_commands(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    builder.second_error = SecondBuildError(27)
    assert builder.run("verify", "x86") == 27
    assert "the same bytes" not in capsys.readouterr().err


def test_wheels_that_differ_are_an_error(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    builder.differing = ("vllm/_C.abi3.so", "vllm/a.py")
    assert builder.run("verify", "x86") == ReproducibilityError.exit_code
    said = capsys.readouterr().err
    assert "two builds that differ in umask, hostname give wheels that differ in 2 places" in said
    assert "vllm/a.py: content" in said
    assert "the same bytes" not in said


def test_a_checkout_is_installed_for_this_machine(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    assert builder.run("develop", "vllm", "--jobs", "3") == 0
    more = {"python": None, "requirements": True}
    assert builder.developed == [(builder.base, "arm", Path("vllm"), BuildOptions(jobs="3"), more)]
    assert capsys.readouterr().out == "vllm/.venv/bin/python\n"


def test_a_checkouts_target_and_environment_are_the_users(builder: Builder) -> None:
    words = ["--target", "x86", "--python", "venv/bin/python", "--no-requirements"]
    assert builder.run("develop", "vllm", *words) == 0
    more = {"python": Path("venv/bin/python"), "requirements": False}
    assert builder.developed == [(builder.base, "x86", Path("vllm"), BuildOptions(), more)]
