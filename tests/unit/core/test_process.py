from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cpuwheels.core.capture import blocks, capture
from cpuwheels.core.environ import AHEAD, LIBRARY, ORDER, closed_environment
from cpuwheels.core.errors import CommandError, DiskFullError, StoreError
from cpuwheels.core.fork_server import SERVER
from cpuwheels.core.process import TAIL_LINES, run
from cpuwheels.core.supervised import start
from marked import Marked, is_gone, sh, wait_until


def test_output_goes_to_the_log_to_the_caller_and_to_the_tail(logs: Path) -> None:
    seen: list[str] = []
    done = run(sh("echo out; echo err >&2; printf 'no end'"), log=logs / "deep" / "a.log", on_line=seen.append)
    assert (done.returncode, done.output) == (0, "out\nerr\nno end")
    assert seen == ["out", "err", "no end"]
    log = (logs / "deep" / "a.log").read_text()
    assert log.startswith("$ /bin/sh -c ")
    assert "out\nerr\nno end" in log
    assert log.endswith("# exit status 0\n")


def test_a_log_is_appended_to(logs: Path) -> None:
    for word in ("one", "two"):
        run(sh(f"echo {word}"), log=logs / "a.log")
    log = (logs / "a.log").read_text()
    assert log.index("one") < log.index("two")


def test_the_tail_is_the_end_of_a_long_output_and_the_log_has_all(logs: Path) -> None:
    done = run(sh("seq 1 1000"), log=logs / "a.log")
    assert done.output.splitlines() == [str(number) for number in range(1001 - TAIL_LINES, 1001)]
    assert "\n1\n2\n3\n" in (logs / "a.log").read_text()


def test_bytes_that_are_no_text_do_not_stop_it(logs: Path) -> None:
    assert run(sh(r"printf '\377\376ok'"), log=logs / "a.log").output.endswith("ok")


def test_a_failure_is_told_with_command_log_and_words(logs: Path) -> None:
    with pytest.raises(CommandError, match="sh failed with status 3") as raised:
        run(sh("echo words; exit 3"), log=logs / "a.log")
    assert raised.value.output == "words"
    assert raised.value.log == logs / "a.log"
    assert raised.value.where == "/bin/sh -c 'echo words; exit 3'"
    assert "# exit status 3" in (logs / "a.log").read_text()


def test_a_failure_may_be_an_answer(logs: Path) -> None:
    assert run(sh("exit 3"), log=logs / "a.log", check=False).returncode == 3
    assert run(sh("kill -9 $$"), log=logs / "a.log", check=False).returncode == -9


@pytest.mark.parametrize("check", [True, False])
def test_a_program_that_is_not_there_is_told(logs: Path, tmp_path: Path, check: bool) -> None:
    (tmp_path / "plain").write_text("")
    for program, reason in (("no-such-program", "No such file"), (tmp_path / "plain", "Permission denied")):
        with pytest.raises(CommandError, match=reason):
            run([program], log=logs / "a.log", check=check)


def test_a_log_that_cannot_be_written_is_told_and_the_command_ended(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot use"):
        run(sh("exit"), log=tmp_path / "file" / "a.log")
    with pytest.raises(DiskFullError, match="no space left"):
        run(sh("exit"), log=Path("/dev/full"))


@pytest.mark.parametrize("env", [None, {"PATH": os.defpath}], ids=["closed by default", "given"])
def test_the_callers_settings_are_not_seen(
    logs: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str] | None
) -> None:
    monkeypatch.setenv("CXXFLAGS", "-march=native")
    assert "CXXFLAGS" not in run(["/usr/bin/env"], log=logs / "a.log", env=env).output


def test_a_closed_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"HOME": "/h", "PATH": "/p", "LC_ALL": "tr_TR", "https_proxy": "x", "TZ": "y", "X": "z"}.items():
        monkeypatch.setenv(name, value)
    env = closed_environment({"OWN": "1"}, path_first=[tmp_path])
    assert env["HOME"] == "/h"
    assert env["PATH"] == f"{tmp_path}{os.pathsep}/p"
    assert (env["LC_ALL"], env["TZ"], env["PYTHONHASHSEED"]) == ("C.UTF-8", "UTC", "0")
    assert env["OWN"] == "1"
    assert not {"https_proxy", "X"} & set(env)
    assert closed_environment(network=True)["https_proxy"] == "x"


def test_every_command_of_a_second_build_loads_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {LIBRARY: "/lib.so", AHEAD: "5", ORDER: "7", "LD_PRELOAD": "/another.so"}.items():
        monkeypatch.setenv(name, value)
    found = {LIBRARY: "/lib.so", AHEAD: "5", ORDER: "7", "LD_PRELOAD": "/lib.so"}
    assert found.items() <= closed_environment().items()
    assert closed_environment()["QEMU_UNSET_ENV"] == "LD_PRELOAD", "emulated programs cannot load it"
    network = closed_environment(network=True)
    assert AHEAD not in network, "with another time certificates are not valid"
    assert (network["LD_PRELOAD"], network[ORDER]) == ("/lib.so", "7")
    monkeypatch.delenv(LIBRARY)
    assert not {LIBRARY, AHEAD, ORDER, "LD_PRELOAD"} & set(closed_environment())


def test_files_of_a_command_can_be_read_by_others_whatever_the_callers_umask(logs: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        run(sh(": > made; umask"), log=logs / "a.log", cwd=tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o644


def test_nothing_can_be_asked_of_the_user(logs: Path) -> None:
    assert run(sh("read answer || echo none"), log=logs / "a.log").output == "none"


def test_a_group_of_its_own_keeps_ctrl_c_from_reaching_it_first(logs: Path) -> None:
    script = "import os; print(os.getpgid(0) == os.getpid())"
    assert run([sys.executable, "-c", script], log=logs / "a.log").output == "True"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_ends_the_command_and_its_children(logs: Path, stop: type[BaseException]) -> None:
    pids: list[int] = []

    def on_line(line: str) -> None:
        pids.append(int(line))
        if len(pids) == 2:
            raise stop

    with pytest.raises(stop):
        run(sh("echo $$; sleep 60 & echo $!; wait"), log=logs / "a.log", on_line=on_line)
    wait_until(lambda: all(map(is_gone, pids)))


def test_a_command_that_will_not_end_is_killed(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuwheels.core.process._GRACE_SECONDS", 0.1)
    pids: list[int] = []

    def on_line(line: str) -> None:
        pids.append(int(line))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        run(sh("trap '' TERM; echo $$; while :; do sleep 0.05; done"), log=logs / "a.log", on_line=on_line)
    assert is_gone(pids[0])


PARENT = """
import os, sys
from pathlib import Path
from cpuwheels.core.process import background, relay, run

def in_background(command, log):
    with background(command, log=log, env=os.environ) as child:
        child.wait()

{
    "run": lambda command, log: run(command, log=log),
    "background": in_background,
    "relay": lambda command, log: relay(command, env=os.environ, umask=0o022),
}[sys.argv[1]](sys.argv[2:], Path("log"))
"""
"""Starts the command in its arguments one way or another, and waits for it."""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent is gone")
@pytest.mark.parametrize("way", ["run", "background", "relay"])
def test_a_command_is_told_to_stop_when_its_parent_is_killed(tmp_path: Path, way: str) -> None:
    script = "trap 'touch told; exit' TERM; echo $$ >pid.new; mv pid.new pid; while :; do sleep 0.05; done"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, way, *sh(script)], cwd=tmp_path)
    try:
        wait_until((tmp_path / "pid").exists)
    finally:
        parent.kill()
        parent.wait()
    pid = int((tmp_path / "pid").read_text())
    try:
        wait_until(lambda: is_gone(pid))
    finally:
        if not is_gone(pid):
            os.kill(pid, signal.SIGKILL)
    assert (tmp_path / "told").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hand orphans to the supervisor")
def test_cpu_time_of_commands_of_a_command_counts(logs: Path, tmp_path: Path) -> None:
    burn = "import time; [None for _ in iter(lambda: time.process_time() < 0.5, False)]"
    inner = [sys.executable, "-c", PARENT, "run", sys.executable, "-c", burn]
    assert run(inner, log=logs / "a.log", cwd=tmp_path).cpu_seconds >= 0.5


@pytest.mark.parametrize(
    ("script", "both", "status", "output"),
    [
        ("echo out; echo err >&2", False, 0, "out\n"),
        ("echo out; echo err >&2", True, 0, "out\nerr\n"),
        ("echo out; echo err >&2; exit 2", False, 2, "out\nerr\n"),
    ],
)
def test_short_questions(script: str, both: bool, status: int, output: str) -> None:
    answer = capture(sh(script), both=both)
    assert (answer.returncode, answer.output) == (status, output)


def test_a_question_to_nobody_and_one_without_an_answer() -> None:
    assert capture(["no-such-program"]).returncode == 127
    assert capture(["/bin/sleep", "60"], timeout=0.1).returncode == 124
    assert capture(sh(r"printf '\377ok'")).output.endswith("ok")


def test_blocks_hold_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuwheels.core.capture._BLOCK", 5)
    found = list(blocks(["printf", "one\ntwo and three\nfour"]))
    assert b"".join(found) == b"one\ntwo and three\nfour"
    assert all(block.endswith(b"\n") for block in found[:-1] if block)


def test_a_command_read_in_blocks_that_fails_says_why() -> None:
    with pytest.raises(CommandError, match="sh ended with status 3") as caught:
        list(blocks(["sh", "-c", "echo some; echo sorry >&2; exit 3"]))
    assert caught.value.output == "sorry\n"
    with pytest.raises(CommandError, match="cannot start"):
        list(blocks(["/nowhere/objdump"]))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hand orphans to the supervisor")
def test_what_a_supervisor_leaves_that_takes_time_to_die(tmp_path: Path) -> None:
    """The end of its channel is seen before what it leaves has another parent: under load that took a while once."""
    marked = Marked(tmp_path)
    with Path(os.devnull).open("r+b") as null:
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), null.fileno())
        child = start(sh("setsid sleep 600 & sleep 600"), env=marked.env, **streams)
    try:
        wait_until(lambda: len(marked.living()) == 3)
        SERVER.end_strays(child.supervisor)
        time.sleep(0.3)
        os.kill(child.supervisor, signal.SIGKILL)
        wait_until(lambda: not marked.living())
    finally:
        marked.end()
        child.close()
