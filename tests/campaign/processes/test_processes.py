"""Processes: none is left, none sees a secret, all are bounded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import click
import psutil
import pytest

from cpuwheels.cli.ranges import TimeLimit
from cpuwheels.core.capture import blocks, capture
from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.errors import CommandError, PostponedError, StepLimitError
from cpuwheels.core.fork_server import SERVER
from cpuwheels.core.process import background, run
from cpuwheels.core.step_limits import StepLimit, finish_by
from marked import Marked, is_gone, sh, wait_until

HOUR = 3600.0
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no subreaper: the group is ended alone")

PARENT = """
import os, sys
from pathlib import Path
from cpuwheels.core.process import run
run(sys.argv[1:], log=Path("log"), env=dict(os.environ))
"""
"""A program like cpuwheels: runs the command in its arguments and waits for it."""

BOMB = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
LEADER = os.getpid()
print("begun", flush=True)
end = time.monotonic() + 30  # should it ever get away
while time.monotonic() < end:
    if os.fork() == 0:
        if sys.argv[1] == "group":
            os.fork()
            time.sleep(30)
            break
        os.setsid()
    elif os.getpid() != LEADER:
        os._exit(0)
    time.sleep(0.02)
"""
"""Forks again and again: in its group, or into chains in which each process has a session of its own and no parent."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_01_background_child(log: Path, marked: Marked) -> None:
    done = run(sh("sleep 600 & echo $!"), log=log, env=marked.env)
    assert is_gone(int(done.output))
    assert marked.living() == []


@LINUX
def test_02_child_in_a_session_of_its_own(log: Path, marked: Marked) -> None:
    run(sh("setsid sleep 600 & sleep 0.1"), log=log, env=marked.env)
    assert marked.living() == []


@LINUX
def test_03_daemon_that_ignores_sigterm(log: Path, marked: Marked) -> None:
    daemon = "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\nos.fork() and os._exit(0)\nos.setsid()\n"
    daemon += "os.fork() and os._exit(0)\nprint('up', flush=True)\ntime.sleep(600)\n"
    assert run([sys.executable, "-c", daemon], log=log, env=marked.env).returncode == 0
    assert marked.living() == []
    assert "# what it left running was killed" in log.read_text()


@LINUX
@pytest.mark.parametrize(
    "way",
    [
        pytest.param("run", id="04-run"),
        pytest.param("capture", id="05-capture"),
        pytest.param("blocks", id="06-blocks"),
    ],
)
def test_pipe_holder(log: Path, marked: Marked, way: str) -> None:
    """Three ways to read what a command writes; somebody else keeps the pipe open in each."""
    command, began = sh("setsid sleep 600 & echo over"), time.monotonic()
    if way == "run":
        output = run(command, log=log, env=marked.env).output
    elif way == "capture":
        output = capture(command, env=marked.env, timeout=60).output
    else:
        output = b"".join(blocks(command, env=marked.env)).decode()
    assert output.strip() == "over"
    assert time.monotonic() - began < 15
    assert marked.living() == []


def killed(tmp_path: Path, marked: Marked, script: str, number: int) -> None:
    """Kill a program like cpuwheels while it runs a command."""
    command = [sys.executable, "-c", PARENT, *sh(f"{script}\n: >begun; while :; do sleep 0.1; done")]
    environment = {**os.environ, **marked.env}
    parent = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True)
    try:
        wait_until((tmp_path / "begun").exists)
    finally:
        parent.send_signal(number)
        parent.wait()
    wait_until(lambda: not marked.living())


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGKILL, id="07-kill"), pytest.param(signal.SIGABRT, id="08-abort")]
)
def test_cpuwheels_killed(tmp_path: Path, marked: Marked, number: int) -> None:
    killed(tmp_path, marked, "sleep 600 & sleep 600 &", number)


@LINUX
def test_09_cpuwheels_killed_and_a_child_elsewhere(tmp_path: Path, marked: Marked) -> None:
    killed(tmp_path, marked, "setsid sh -c 'trap \"\" TERM; sleep 600; sleep 600' &", signal.SIGKILL)


@LINUX
def test_10_memgate_killed(log: Path, marked: Marked, memgate: Path) -> None:
    """Its compiler's own children are nobody's then; they end with the step."""
    compiler = "sleep 600 & while :; do sleep 0.1; done"
    script = f"'{memgate}' -- /bin/sh -c '{compiler}' & sleep 0.5; kill -9 $!; wait"
    run(sh(script), log=log, env=marked.env)
    assert marked.living() == []


@LINUX
@pytest.mark.parametrize("kind", [pytest.param("group", id="11-group"), pytest.param("hop", id="12-hop")])
def test_fork_bomb(log: Path, marked: Marked, kind: str) -> None:
    limit = StepLimit(wall=1.0, idle=HOUR)
    with pytest.raises(StepLimitError, match="did not end within 1 s"):
        run([sys.executable, "-c", BOMB, kind], log=log, env=marked.env, limit=limit)
    assert marked.living() == []


@pytest.mark.parametrize(
    "script", [pytest.param("exec sleep 600", id="13-itself"), pytest.param("sleep 600; :", id="14-its-child")]
)
def test_silent_hang(log: Path, marked: Marked, script: str) -> None:
    limit, began = StepLimit(wall=HOUR, idle=2.0), time.monotonic()
    with pytest.raises(StepLimitError, match="step log has printed nothing and used no CPU for 2 s") as caught:
        run(sh(script), log=log, env=marked.env, limit=limit)
    assert caught.value.exit_code == 54
    assert caught.value.log == log
    assert "CPUWHEELS_LIMIT_FACTOR" in caught.value.next_step
    assert time.monotonic() - began < 15
    assert marked.living() == []


def test_15_silent_work_is_no_hang(log: Path, marked: Marked) -> None:
    work = "import time\nend = time.monotonic() + 3\nwhile time.monotonic() < end: pass\nprint('made')"
    done = run([sys.executable, "-c", work], log=log, env=marked.env, limit=StepLimit(wall=HOUR, idle=1.5))
    assert done.output == "made"


def test_16_talk_without_end(log: Path, marked: Marked) -> None:
    with pytest.raises(StepLimitError, match=r"step log did not end within 0\.5 s"):
        run(sh("while :; do echo on; sleep 0.05; done"), log=log, env=marked.env, limit=StepLimit(0.5, HOUR))
    assert marked.living() == []


def test_17_ten_gigabytes_of_log(log: Path, marked: Marked) -> None:
    with pytest.raises(StepLimitError, match="printed more than 3 MiB"):
        run(["yes"], log=log, env=marked.env, limit=StepLimit(HOUR, HOUR, log_bytes=3 << 20))
    assert log.stat().st_size < 5 << 20
    assert marked.living() == []


def test_18_a_line_without_end(log: Path, marked: Marked) -> None:
    before, lines = psutil.Process().memory_info().rss, []
    run(["head", "-c", "40000000", "/dev/zero"], log=log, env=marked.env, on_line=lambda line: lines.append(len(line)))
    assert max(lines) < 2 << 20
    assert sum(lines) == 40_000_000
    assert psutil.Process().memory_info().rss - before < 64 << 20


def test_19_escape_sequences_in_a_log(log: Path, marked: Marked) -> None:
    with pytest.raises(CommandError) as caught:
        run(sh(r"printf '\033]0;owned\007\033[2J\n'; exit 1"), log=log, env=marked.env)
    assert "\x1b" not in str(caught.value)
    assert "\x07" not in str(caught.value)
    assert "owned" in str(caught.value)


def test_20_secret_in_the_arguments(log: Path, marked: Marked, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), pytest.raises(CommandError) as caught:
        run(["false", "https://user:s3cret@index.example/simple"], log=log, env=marked.env)
    assert "s3cret" not in log.read_text() + caplog.text + str(caught.value)
    assert "index.example" in log.read_text()


@LINUX
def test_21_environment_of_the_processes_above(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor and the process that made it have nothing in their environment, nor their memory of it."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    script = "cat /proc/self/environ /proc/$PPID/environ; "
    script += "cat /proc/$(sed 's/.*) . //' /proc/$PPID/stat | cut -d' ' -f1)/environ"
    assert "s3cret" not in run(sh(script), log=log).output
    assert "s3cret" not in log.read_text()


def test_22_the_time_of_a_nightly_job_ends_inside_of_a_step(log: Path, marked: Marked) -> None:
    began = time.monotonic()
    with finish_by(began + 1), pytest.raises(PostponedError, match="the time is up: log was ended"):
        run(sh("while :; do echo on; sleep 0.1; done"), log=log, env=marked.env)
    assert time.monotonic() - began < 10
    assert marked.living() == []
    assert run(["true"], log=log).returncode == 0  # nothing of it is left behind


@LINUX
def test_23_supervisor_killed(log: Path, marked: Marked) -> None:
    """Whoever kills it does not get away from it: the command goes with its supervisor, and the error says so."""
    for script in ("sleep 600 & kill -9 $PPID; sleep 600", "setsid sleep 600 & sleep 0.3; kill -9 $PPID; sleep 600"):
        with pytest.raises(CommandError, match="watches over it was killed"):
            run(sh(script), log=log, env=marked.env)
        wait_until(lambda: not marked.living())


def test_24_process_that_makes_supervisors_killed(log: Path) -> None:
    run(["true"], log=log)
    server = SERVER._process
    assert server is not None
    server.kill()
    server.wait()
    assert run(sh("echo again"), log=log).output == "again"


def test_25_command_that_ignores_sigterm(log: Path, marked: Marked) -> None:
    def stop(line: str) -> None:
        raise RuntimeError(line)

    with pytest.raises(RuntimeError):
        run(sh("trap '' TERM INT HUP; echo up; while :; do sleep 0.1; done"), log=log, env=marked.env, on_line=stop)
    assert marked.living() == []


def test_26_stopped_command(log: Path, marked: Marked) -> None:
    with pytest.raises(StepLimitError):
        run(sh("sleep 600 & kill -STOP $!; kill -STOP $$"), log=log, env=marked.env, limit=StepLimit(1.0, HOUR))
    assert marked.living() == []


def test_27_a_thread_that_fails_ends_the_commands_of_the_others(log: Path, marked: Marked) -> None:
    began = threading.Event()

    def waits() -> None:
        run(sh("sleep 600 & echo up; wait"), log=log, env=marked.env, on_line=lambda _: began.set())

    def fails() -> None:
        began.wait(20)
        raise KeyError

    with pytest.raises(KeyError):
        run_parallel([fails, waits], 2)
    assert marked.living() == []


def test_28_question_without_an_answer(marked: Marked) -> None:
    began = time.monotonic()
    assert capture(sh("sleep 600 & sleep 600"), env=marked.env, timeout=0.5).returncode == 124
    assert time.monotonic() - began < 10
    assert marked.living() == []


def test_29_time_limits_without_sense() -> None:
    for value in ("nan", "inf", "1e30", "172801", "0", "-1"):
        with pytest.raises(click.BadParameter):
            TimeLimit(HOUR).convert(value, None, None)
    assert TimeLimit(HOUR).convert("172800", None, None) == 48 * HOUR


@LINUX
def test_30_descriptors_of_cpuwheels(log: Path, tmp_path: Path) -> None:
    """A command has its three streams and nothing else: no lock, no socket, no log of another."""
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        listed = run([sys.executable, "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))"], log=log).output
    assert listed == "['0', '1', '2', '3']"  # the last one is the listing's own


def test_31_server_that_leaves_processes_behind(log: Path, marked: Marked) -> None:
    with background(sh("sleep 600 & echo up"), log=log, env=marked.env) as server:
        assert server.wait(10) == 0
        assert marked.living() != []  # they may go on for as long as the server is wanted
    assert marked.living() == []


def test_32_log_that_goes_away(tmp_path: Path, marked: Marked) -> None:
    log = tmp_path / "logs" / "log"

    def remove(line: str) -> None:
        if line == "one":
            log.unlink()
            log.parent.rmdir()

    done = run(sh("echo one; sleep 0.2; echo two"), log=log, env=marked.env, on_line=remove)
    assert done.output == "one\ntwo"
    assert run(["true"], log=log).returncode == 0
    assert log.is_file()
