"""Bisections in which a person at a terminal gives the verdicts."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from terminal import Terminal
from tiny_project import Tiny, commit_all

pytestmark = pytest.mark.slow

COMMITS = 6
KERNEL_COMMENT, PYTHON_FAULT, NEW_KERNEL = 2, 4, 6
QUESTION = r"Verdict on ([0-9a-f]{9}): good, bad, skip, retry or quit\?"
ASKS = "import sys, vllm; sys.exit('wrong' in dir(vllm))"
ENDING_SECONDS = 60.0

SLOW = """
constexpr unsigned long turn(unsigned long seed) {
  for (int i = 0; i < 250000; ++i) seed = seed * 6364136223846793005UL + 1;
  return seed;
}
"""
"""Each use takes the compiler a part of a second, and a thousand of them longer than any test."""


@dataclasses.dataclass(frozen=True)
class Written:
    """A repository.

    Attributes:
        folder: The clone.
        commits: Hashes; the first is the release v0.1.0.
    """

    folder: Path
    commits: list[str]

    @property
    def kernel(self) -> Path:
        return self.folder / "csrc" / "cpu" / "ops.cpp"

    def add(self, name: str) -> None:
        (self.folder / "vllm" / f"{name}.py").write_text(f"name = '{name}'\n")
        self.commits.append(commit_all(self.folder, name))


def write(tiny: Tiny, folder: Path) -> Written:
    shutil.copytree(tiny.tree, folder)
    (folder / "PKG-INFO").unlink()
    return Written(folder, [commit_all(folder, "release", tag="v0.1.0")])


@pytest.fixture(scope="module")
def faulty(tiny: Tiny, tiny_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Written:
    assert tiny_wheel  # its kernels are those of the release
    written = write(tiny, tmp_path_factory.mktemp("person") / "vllm")
    package = written.folder / "vllm" / "__init__.py"
    for number in range(1, COMMITS + 1):
        if number in {KERNEL_COMMENT, NEW_KERNEL}:
            written.kernel.write_text(f"// {number}\n{written.kernel.read_text()}")
        elif number == PYTHON_FAULT:
            package.write_text(f"{package.read_text()}wrong = True\n")
        written.add(f"change{number}")
    return written


@pytest.fixture(scope="module")
def slow(tiny: Tiny, tiny_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A repository whose newest commit takes longer to compile than any test."""
    assert tiny_wheel
    written = write(tiny, tmp_path_factory.mktemp("slow") / "vllm")
    uses = [f"constexpr unsigned long turned{number} = turn({number});" for number in range(2000)]
    written.kernel.write_text("\n".join([written.kernel.read_text(), SLOW, *uses, ""]))
    written.add("slow")
    return written


def command(tiny: Tiny, written: Written, out: Path, *more: str) -> list[str]:
    ends = ("--repo", str(written.folder), "--good", "0.1.0", "--no-requirements", "--out", str(out))
    return tiny.command("bisect", *ends, *more)


def used(terminal: Terminal, *arguments: str) -> int:
    """Run the line that was printed last, with other arguments, and return its exit status."""
    line = re.findall(r"^ {4}(\S.*/use) python$", terminal.screen, re.MULTILINE)[-1]
    return subprocess.run([*shlex.split(line), *arguments], check=False, capture_output=True, cwd="/").returncode


def state(out: Path) -> list[dict]:
    return json.loads((out / "state.json").read_text())["probes"]


def no_process_of(out: Path, seconds: float = ENDING_SECONDS) -> bool:
    """Return whether no process is left, after some time, that was started for a bisection."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if any(str(out) in word for word in process.cmdline()):
                    found.append(process)
        if not found:
            return True
        time.sleep(0.2)
    return False


def test_a_person_finds_it_with_the_environment_at_hand(tiny: Tiny, faulty: Written, tmp_path: Path) -> None:
    """The bad end's wheel is being made when it is asked for, since the first answer comes at once."""
    out = tmp_path / "out"
    with Terminal(command(tiny, faulty, out), columns=60) as terminal:
        first = terminal.wait_for(QUESTION)
        assert first[1] == faulty.commits[0][:9]
        terminal.type("good\n")
        second = terminal.wait_for(QUESTION)
        assert second[1] == faulty.commits[-1][:9]
        assert used(terminal, "python", "-c", ASKS) == 1
        assert used(terminal, "sh", "-c", "exit 7") == 7
        terminal.type("retry\n")
        terminal.wait_for(QUESTION)
        assert used(terminal, "python", "-c", ASKS) == 1
        terminal.type("bad it is wrong\n")
        while terminal.wait_for(f"{QUESTION}|first bad commit")[1]:
            terminal.type("bad\n" if used(terminal, "python", "-c", ASKS) else "good\n")
        assert terminal.end() == 0
    result = json.loads((out / "result.json").read_text())
    assert result["first_bad"] == faulty.commits[PYTHON_FAULT]
    assert result["question"]["judge"] == {"verdicts": "by a person", "requirements": "none"}
    reasons = {probe["commit"]: probe["reason"] for probe in result["probes"]}
    assert reasons[faulty.commits[-1]] == "it is wrong"
    bad_end = out / faulty.commits[-1][:12]
    assert "wheel: is being made already" in (bad_end / "probe.log").read_text()
    assert "# exit status 0" in (bad_end / "prefetch-compile.log").read_text()
    assert {probe["commit"]: probe["wheel_from"] for probe in result["probes"]}[faulty.commits[-1]] == "build"
    assert "is the first bad commit" in (out / "issue.md").read_text()
    assert not [*out.glob("*/use"), *out.glob("*/venv"), *out.glob("*/temporary")]
    assert no_process_of(out)


@pytest.mark.parametrize("keys", ["\x03", "quit\n", "\x04"], ids=["Ctrl-C", "quit", "Ctrl-D"])
def test_stopping_at_a_question_keeps_what_is_known(tiny: Tiny, slow: Written, tmp_path: Path, keys: str) -> None:
    """Meanwhile a wheel is being made that takes longer than the test."""
    out = tmp_path / "out"
    with Terminal(command(tiny, slow, out)) as terminal:
        terminal.wait_for(QUESTION)
        began = time.monotonic()
        terminal.type(keys)
        assert terminal.end() == 130
        assert time.monotonic() - began < ENDING_SECONDS
        assert "run the same command again" in terminal.screen
        assert "Traceback" not in terminal.screen
    assert no_process_of(out)
    assert not (out / "state.json").exists()
    with Terminal(command(tiny, slow, out)) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("good\n")
        terminal.wait_for("is good: ")
        assert [probe["verdict"] for probe in state(out)] == ["good"]
        terminal.wait_for("▸ wheel")  # it is waited for
        terminal.type("\x03")
        assert terminal.end() == 130
    assert [probe["verdict"] for probe in state(out)] == ["good"]
    with Terminal(command(tiny, slow, out)) as terminal:
        terminal.wait_for("going on; tested before: 1 commit")
        terminal.type("\x03")
        assert terminal.end() == 130
    assert no_process_of(out)


def compilers(process: subprocess.Popen[bytes], seconds: float = 120.0) -> list[psutil.Process]:
    """Return the compilers that work for a program, as soon as there are some."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = []
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.name() == "cc1plus":
                    found.append(child)
        if found:
            return found
        time.sleep(0.1)
    pytest.fail("nothing is compiled")


def test_killed_while_a_wheel_is_made_nothing_is_left_and_it_goes_on(tiny: Tiny, slow: Written, tmp_path: Path) -> None:
    """Another bisection, whose process waits for the same kernels, can be stopped at once all the same."""
    out, other = tmp_path / "out", tmp_path / "other"
    with Terminal(command(tiny, slow, out)) as terminal:
        terminal.wait_for(QUESTION)
        working = compilers(terminal.process)
        assert {process.nice() for process in working} == {19}
        with Terminal(command(tiny, slow, other, "--regress", "crash")) as second:
            second.wait_for(r"\(bad: it crashes\): good, bad, skip, retry or quit\?")
            time.sleep(3)
            second.type("\x03")
            assert second.end(ENDING_SECONDS) == 130
        assert no_process_of(other)
        with Terminal(command(tiny, slow, out)) as third:
            assert third.end() == 38
            assert "this bisection is already running" in third.screen
        everything = psutil.Process(terminal.process.pid).children(recursive=True)
        terminal.process.send_signal(signal.SIGKILL)
        terminal.process.wait()
        gone, alive = psutil.wait_procs([*working, *everything], ENDING_SECONDS)
        assert not alive
        assert gone
    assert no_process_of(out)
    assert not (out / "state.json").exists()
    assert not list((out / slow.commits[-1][:12]).rglob("*.whl"))
    with Terminal(command(tiny, slow, out)) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("\x03")
        assert terminal.end() == 130
    assert no_process_of(out)


def test_a_commit_that_does_not_build_is_asked_about(tiny: Tiny, tiny_wheel: Path, tmp_path: Path) -> None:
    """Its wheel was to be made in advance, which failed; then it is tried again when it is asked for, and on retry."""
    assert tiny_wheel
    written, out = write(tiny, tmp_path / "vllm"), tmp_path / "out"
    text = written.kernel.read_text()
    written.kernel.write_text(f"#error broken\n{text}")
    written.add("broken")
    written.kernel.write_text(text)
    written.add("fixed")
    with Terminal(command(tiny, written, out), columns=60) as terminal:
        for answer in ("good", "bad"):
            terminal.wait_for(QUESTION)
            terminal.type(f"{answer}\n")
        for answer in ("retry", "skip"):
            terminal.wait_for(r"has no wheel: [^?]*What now: skip, retry or quit\?")
            terminal.type(f"{answer}\n")
        terminal.wait_for("one of these 2 commits is the first bad one")
        assert terminal.end() == 0
    verdicts = [(probe["verdict"], probe["wheel_from"]) for probe in state(out)]
    assert verdicts == [("good", "stored kernels"), ("bad", "stored kernels"), ("skip", "none")]
    assert state(out)[-1]["reason"].startswith("no wheel: ")


def test_without_a_terminal_the_message_says_what_to_give(tiny: Tiny, faulty: Written, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = tiny.run(*command(tiny, faulty, out)[len(tiny.command()) :])
    assert done.returncode == 2
    assert "nobody can be asked for a verdict: standard input and standard error are no terminal" in done.stderr
    assert "a command with --run" in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()
