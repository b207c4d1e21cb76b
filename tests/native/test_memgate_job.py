"""memgate: transparent to the build, exact in the ledger."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "jobs.jsonl"


def run(memgate: Path, ledger: Path, *command: object) -> subprocess.CompletedProcess[str]:
    arguments = [str(part) for part in (memgate, "--ledger", ledger, "--", *command)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def records(ledger: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()]


@pytest.mark.parametrize(
    ("arguments", "output", "source"),
    [
        (["-O2", "-o", "a/x.o", "-c", "src/x.cpp"], "a/x.o", "src/x.cpp"),
        (["-c", "-O2", "x.c", "-ox.o"], "x.o", "x.c"),
        (["-c", "src/x.weird", "-o", "x.o"], "x.o", "src/x.weird"),
        (["x.cc", "-I", "-c", "-o", "x.o", "-c"], "x.o", "x.cc"),
        (["-shared", "-o", "lib.so", "x.o", "y.o", "x.cpp"], "lib.so", ""),
        (["--version"], "", ""),
        (["-c", "x.cpp", "-o"], "", "x.cpp"),
        (["-o", 'a "b"\\c\n.o', "-c", "ü.cpp"], 'a "b"\\c\n.o', "ü.cpp"),
    ],
)
def test_names(memgate, ledger, arguments, output, source):
    assert run(memgate, ledger, "true", *arguments).returncode == 0
    (record,) = records(ledger)
    assert (record["output"], record["source"]) == (output, source)


def test_cost(memgate, ledger):
    block = (
        "import time; block = bytearray(b'x') * (80 << 20); end = time.process_time() + .2\n"
        "while time.process_time() < end: pass"
    )
    before = time.time()
    run(memgate, ledger, "sh", "-c", f'{sys.executable} -c "$1"; true', "sh", block)
    (record,) = records(ledger)
    assert set(record) == {
        "output",
        "source",
        "start",
        "wall",
        "user",
        "system",
        "peak_bytes",
        "tree_bytes",
        "shared_bytes",
        "expected_bytes",
        "waited",
        "lane",
        "attempt",
        "note",
        "stopped",
        "status",
    }
    assert 80 << 20 < record["peak_bytes"] < 160 << 20
    assert 0.15 < record["user"] + record["system"] <= record["wall"] + 0.05
    assert before <= record["start"] <= time.time()


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -SEGV $$", 139)]
)
def test_status_is_the_jobs(memgate, ledger, script, status):
    assert run(memgate, ledger, "sh", "-c", script).returncode == status
    assert records(ledger)[0]["status"] == status


def test_output_passes_through(memgate, ledger):
    done = run(memgate, ledger, "sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_ledger_that_cannot_be_written_breaks_nothing(memgate, tmp_path):
    done = run(memgate, tmp_path / "no/such/folder", "sh", "-c", "exit 5")
    assert done.returncode == 5
    assert done.stderr.count("memgate: cannot write") == 1


def test_full_disk_breaks_nothing(memgate):
    if Path("/dev/full").exists():
        done = run(memgate, Path("/dev/full"), "true")
        assert done.returncode == 0
        assert "No space left" in done.stderr


def test_job_that_cannot_start(memgate, ledger, tmp_path):
    assert run(memgate, ledger, "no-such-compiler").returncode == 127
    plain = tmp_path / "plain"
    plain.write_text("")
    assert run(memgate, ledger, plain).returncode == 126


@pytest.mark.parametrize(
    "arguments",
    [[], ["--"], ["--ledger"], ["--ledger", "x"], ["--ledger", "x", "--"], ["--what", "--", "true"], ["true"]],
)
def test_wrong_use(memgate, arguments, tmp_path):
    done = subprocess.run([memgate, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 125
    assert "usage:" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_job(memgate, ledger, number):
    script = f"trap 'exit 9' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen(
        [memgate, "--ledger", ledger, "--", "sh", "-c", script], stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        job.stdout.readline()
        job.send_signal(number)
        assert job.wait(10) == 9
    assert records(ledger)[0]["status"] == 9


def test_job_that_dies_of_the_signal(memgate, ledger):
    with subprocess.Popen(
        [memgate, "--ledger", ledger, "--", "sh", "-c", "echo ready; exec sleep 60"], stdout=subprocess.PIPE
    ) as job:
        assert job.stdout is not None
        job.stdout.readline()
        job.terminate()
        assert job.wait(10) == 128 + signal.SIGTERM


def test_killed_launcher_takes_the_job_along(memgate, ledger):
    with subprocess.Popen(
        [memgate, "--ledger", ledger, "--", "sh", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        pid = int(job.stdout.readline())
        job.kill()
    if sys.platform != "linux":  # elsewhere a process cannot ask to be told of its parent's death
        os.kill(pid, signal.SIGTERM)
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the job outlived its launcher")


def test_many_at_once_write_whole_lines(memgate, ledger):
    name = "deep/" * 600
    jobs = [
        subprocess.Popen([memgate, "--ledger", ledger, "--", "true", "-o", f"{name}{number}.o"]) for number in range(60)
    ]
    assert [job.wait() for job in jobs] == [0] * 60
    assert {record["output"] for record in records(ledger)} == {f"{name}{number}.o" for number in range(60)}


def test_starts_in_about_a_millisecond(memgate, ledger):
    """More than the command alone takes; the quickest of many, as other programs can only make it slower."""

    def seconds(command: list[Path | str]) -> float:
        began = time.perf_counter()
        subprocess.run(command, check=True)
        return time.perf_counter() - began

    alone, behind = zip(
        *((seconds(["true"]), seconds([memgate, "--ledger", ledger, "--", "true"])) for _ in range(150)), strict=True
    )
    assert min(behind) - min(alone) < 0.002


def test_note(memgate: Path, ledger: Path) -> None:
    command = ["sh", "-c", 'printf "# of this file\ncache_miss\n\nstored" > "$OUTCOME"']
    done = subprocess.run(
        [memgate, "--ledger", ledger, "--note", "OUTCOME", "--", *command], check=False, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert [record["note"] for record in records(ledger)] == ["cache_miss stored"]
    assert list(ledger.parent.iterdir()) == [ledger]


@pytest.mark.parametrize("job", ["true", 'echo "# only a comment" > "$OUTCOME"', 'mkdir "$OUTCOME"'])
def test_no_note(memgate: Path, ledger: Path, job: str) -> None:
    done = subprocess.run(
        [memgate, "--ledger", ledger, "--note", "OUTCOME", "--", "sh", "-c", job], check=False, capture_output=True
    )
    assert done.returncode == 0
    assert [record["note"] for record in records(ledger)] == [""]


def test_a_long_note_is_cut(memgate: Path, ledger: Path) -> None:
    job = 'for i in $(seq 0 299); do echo "word$i"; done > "$OUTCOME"; echo "#$(printf %2000s x)" >> "$OUTCOME"'
    subprocess.run([memgate, "--ledger", ledger, "--note", "OUTCOME", "--", "sh", "-c", job], check=True)
    (record,) = records(ledger)
    note = str(record["note"])
    assert note.startswith("word0 word1 ")
    assert 400 < len(note) < 512
    assert "#" not in note


def test_jobs_at_once_have_notes_of_their_own(memgate: Path, ledger: Path) -> None:
    running = [
        subprocess.Popen(
            [memgate, "--ledger", ledger, "--note", "OUTCOME", "--", "sh", "-c", f'sleep .2; echo {n} > "$OUTCOME"']
        )
        for n in range(8)
    ]
    assert [job.wait() for job in running] == [0] * 8
    assert sorted(str(record["note"]) for record in records(ledger)) == list("01234567")
