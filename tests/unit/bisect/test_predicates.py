"""A command decides, in an environment with the wheel."""

from __future__ import annotations

import io
import os
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from cpuwheels.bisect.command_environment import command_environment
from cpuwheels.bisect.predicates import CommandPredicate, Installed, Judgement
from cpuwheels.bisect.search import Verdict
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import BisectError
from cpuwheels.sandbox.confine import Confined, unconfined

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.bisect.predicates import Predicate
    from cpuwheels.config.options import Regress
    from cpuwheels.sandbox.confine import Confine


def judge(
    command: str,
    cwd: Path,
    *,
    limit: float | None = None,
    confine: Confine = unconfined,
    regress: Regress = "error",
    **environ: str,
) -> Callable[[Path, str, Path], Judgement]:
    def install(wheel: Path, folder: Path, reporter: Reporter) -> Installed:
        reporter.info("installing")
        (folder / "bin").mkdir(parents=True)
        python = folder / "bin" / "python"
        python.write_text(f"#!/bin/sh\necho the python for {wheel.name}\n")
        python.chmod(0o755)
        return Installed(python, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, confine)

    asked: Predicate = CommandPredicate(command, limit, install, environ or {"PATH": os.defpath}, cwd, regress)
    return partial(asked, reporter=Reporter("x86", Console(file=io.StringIO())))


def test_the_command_gets_the_wheel_its_commit_and_its_python(tmp_path: Path) -> None:
    told = 'echo "$CPUWHEELS_WHEEL $CPUWHEELS_COMMIT $CPUWHEELS_PYTHON $VIRTUAL_ENV"; python; pwd'
    found = judge(told, tmp_path)(tmp_path / "a.whl", "c" * 40, tmp_path / "probe")
    assert found == Judgement(Verdict.GOOD, f"exit status 0: {tmp_path}")
    log = (tmp_path / "probe" / "command.log").read_text()
    venv = tmp_path / "probe" / "venv"
    assert f"{tmp_path / 'a.whl'} {'c' * 40} {venv / 'bin' / 'python'} {venv}" in log
    assert "the python for a.whl" in log


def test_nothing_else_gets_in_the_place_of_the_wheel(tmp_path: Path) -> None:
    asks = 'test -z "$PYTHONPATH" && test "$MINE" = kept && test "$ONEDNN_MAX_CPU_ISA" = AVX512_CORE'
    users = {"PYTHONPATH": "/elsewhere", "MINE": "kept", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    found = judge(asks, tmp_path, **command_environment(os.environ | users, ["MINE", "ONEDNN_MAX_CPU_ISA"]))(
        tmp_path / "a.whl", "c", tmp_path / "probe"
    )
    assert found.verdict is Verdict.GOOD


@pytest.mark.parametrize(("command", "verdict"), [("exit 1", "bad"), ("exit 125", "skip"), ("nonesuch", "bad")])
def test_its_exit_status_is_the_verdict(tmp_path: Path, command: str, verdict: str) -> None:
    found = judge(command, tmp_path)(tmp_path / "a.whl", "c", tmp_path / "probe")
    assert found.verdict is Verdict(verdict)
    assert found.reason.startswith("exit status ")
    assert ("not found" in found.reason) == (command == "nonesuch")


def test_what_hangs_is_ended_and_bad(tmp_path: Path) -> None:
    began = time.monotonic()
    asks = judge("sh -c 'sleep 60; echo done' & wait", tmp_path, limit=0.5)
    assert asks(tmp_path / "a.whl", "c", tmp_path / "probe") == Judgement(Verdict.BAD, "no end within 0.5 s")
    assert time.monotonic() - began < 30


def test_what_ends_in_time_is_not_ended(tmp_path: Path) -> None:
    assert judge("true", tmp_path, limit=60)(tmp_path / "a.whl", "c", tmp_path / "probe").verdict is Verdict.GOOD


def test_a_crash_stops_the_search(tmp_path: Path) -> None:
    with pytest.raises(BisectError, match="SIGSEGV, which is no verdict"):
        judge("kill -SEGV $$", tmp_path)(tmp_path / "a.whl", "c", tmp_path / "probe")


@pytest.mark.parametrize(("command", "verdict"), [("exit 3", "bad"), ("exit 125", "skip"), ("exit 0", "good")])
def test_it_is_confined_and_its_exit_status_is_still_the_verdict(tmp_path: Path, command: str, verdict: str) -> None:
    seen = []

    def confine(argv: Sequence[str | Path], env: Mapping[str, str]) -> Confined:
        seen.append((list(argv), env["CPUWHEELS_COMMIT"]))
        return Confined([*argv], {**env}, by_bubblewrap=True)

    assert judge(command, tmp_path, confine=confine)(tmp_path / "a.whl", "c", tmp_path / "probe").verdict == verdict
    assert seen == [(["sh", "-c", command], "c")]


def test_a_crash_that_bubblewrap_tells_stops_the_search(tmp_path: Path) -> None:
    def confine(argv: Sequence[str | Path], env: Mapping[str, str]) -> Confined:
        return Confined([*argv], {**env}, by_bubblewrap=True)

    with pytest.raises(BisectError, match="ended with -11, SIGSEGV, which is no verdict"):
        judge("exit 139", tmp_path, confine=confine)(tmp_path / "a.whl", "c", tmp_path / "probe")


@pytest.mark.parametrize(
    ("command", "success", "crash"),
    [
        ("exit 0", "bad", "good"),
        ("exit 1", "good", "good"),
        ("exit 125", "skip", "skip"),
        ("exit 127", "good", "good"),
        ("kill -SEGV $$", "good", "bad"),
        ("exit 139", "good", "bad"),
    ],
)
def test_a_success_or_a_crash_can_be_what_is_looked_for(tmp_path: Path, command: str, success: str, crash: str) -> None:
    wheel, probe = tmp_path / "a.whl", tmp_path / "probe"
    assert judge(command, tmp_path, regress="success")(wheel, "c", probe).verdict == success
    assert judge(command, tmp_path, regress="crash")(wheel, "c", probe.with_name("other")).verdict == crash


@pytest.mark.parametrize(("regress", "verdict"), [("success", "good"), ("crash", "skip")])
def test_what_hangs_is_no_success_and_may_become_a_crash(tmp_path: Path, regress: Regress, verdict: str) -> None:
    asks = judge("sleep 60", tmp_path, limit=0.3, regress=regress)
    assert asks(tmp_path / "a.whl", "c", tmp_path / "probe").verdict == verdict


def test_a_status_that_no_signal_has_is_no_crash(tmp_path: Path) -> None:
    with pytest.raises(BisectError, match="ended with 255"):
        judge("exit 255", tmp_path, regress="crash")(tmp_path / "a.whl", "c", tmp_path / "probe")
