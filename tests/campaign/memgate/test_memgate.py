"""memgate and its shared files: no crash, no hang, no file of the user changed, the cap holds."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gate_folder import MIB, Gate, finish, most_together
from layout import ROOT

PLACES, PLACE, HEAD = 4096, 136, 160
"""Of csrc/memgate/table.h: how many places there are, and the bytes of one and of what is in front of them."""

SIZE = HEAD + PLACES * PLACE
PRECIOUS = "what a user has in it\n" * 100


def table(gate: Gate) -> Path:
    """Return the gate's table, made by a job."""
    if not (gate.folder / "table").exists():
        assert finish(gate.start("true")) == [(0, "")]
        assert (gate.folder / "table").stat().st_size == SIZE
    return gate.folder / "table"


def put(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def works(gate: Gate) -> None:
    """Two jobs go through the gate, and it can be asked how they are."""
    assert finish(gate.start("true"), gate.start("true"), seconds=30) == [(0, ""), (0, "")]
    status(gate)


def status(gate: Gate) -> dict[str, object]:
    done = subprocess.run(
        [gate.memgate, "--status", gate.folder], capture_output=True, text=True, check=True, timeout=30
    )
    said: dict[str, object] = json.loads(done.stdout, parse_constant=pytest.fail)
    return said


@pytest.mark.parametrize(
    "used",
    [
        pytest.param(0xFFFFFFFF, id="01-most"),
        pytest.param(PLACES + 1, id="02-one-too-many"),
        pytest.param(0x80000000, id="03-below-0-as-int"),
    ],
)
def test_used_places(gate: Gate, used: int) -> None:
    put(table(gate), 4, struct.pack("<I", used))
    works(gate)


def test_04_version_of_nobody(gate: Gate) -> None:
    put(table(gate), 0, struct.pack("<I", 0xDEADBEEF))
    works(gate)


@pytest.mark.parametrize(
    "size", [pytest.param(0, id="05-empty"), pytest.param(4, id="06-cut"), pytest.param(SIZE + 1, id="07-longer")]
)
def test_size_of_the_table(gate: Gate, size: int) -> None:
    os.truncate(table(gate), size)
    works(gate)
    assert table(gate).stat().st_size == SIZE


def test_08_cut_while_a_job_waits(gate: Gate) -> None:
    gate.settings(cpus=1)
    first = gate.sleep("first", 1.5)
    time.sleep(0.4)
    second = gate.sleep("second", 0)
    time.sleep(0.4)
    os.truncate(table(gate), 0)
    assert finish(first, second, seconds=30) == [(0, ""), (0, "")]


def test_09_cut_while_jobs_run_and_the_cap_holds(gate: Gate) -> None:
    gate.settings(cpus=8, mib=200)
    gate.expect(**{f"{number}": (1, 90) for number in range(6)})
    jobs = [gate.sleep(f"{number}", 0.8) for number in range(2)]
    time.sleep(0.4)
    os.truncate(table(gate), 0)
    time.sleep(0.3)  # in which those that run enter themselves again: they look every 50 ms
    jobs += [gate.sleep(f"{number}", 0.2) for number in range(2, 6)]
    assert finish(*jobs, seconds=30) == [(0, "")] * 6
    assert most_together(gate.records(), "expected_bytes") <= 200 * MIB


def refused(gate: Gate, words: str) -> None:
    ((returncode, said),) = finish(gate.start("true"), seconds=10)
    assert returncode == 125
    assert words in said


def test_10_table_is_a_fifo(gate: Gate) -> None:
    os.mkfifo(gate.folder / "table")
    refused(gate, "cannot use")


def test_11_table_is_a_folder(gate: Gate) -> None:
    (gate.folder / "table").mkdir()
    refused(gate, "cannot use")


def test_12_table_is_a_socket(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(gate.folder)  # a socket's path has to be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("table")
        refused(gate, "cannot use")


@pytest.mark.parametrize("link", [pytest.param("symbolic", id="13-symbolic"), pytest.param("hard", id="14-hard")])
def test_table_is_a_link_to_a_users_file(gate: Gate, tmp_path: Path, link: str) -> None:
    precious = tmp_path / "thesis.tex"
    precious.write_text(PRECIOUS)
    if link == "symbolic":
        (gate.folder / "table").symlink_to(precious)
    else:
        os.link(precious, gate.folder / "table")
    refused(gate, "cannot use")
    assert precious.read_text() == PRECIOUS


@pytest.mark.parametrize("kind", [pytest.param("fifo", id="15-fifo"), pytest.param("link", id="16-link")])
def test_settings(gate: Gate, tmp_path: Path, kind: str) -> None:
    (gate.folder / "settings").rename(tmp_path / "settings")
    if kind == "fifo":
        os.mkfifo(gate.folder / "settings")
    else:
        (gate.folder / "settings").symlink_to(tmp_path / "settings")
    refused(gate, "cannot read")


def test_17_costs_are_a_fifo(gate: Gate) -> None:
    os.mkfifo(gate.folder / "expected")
    works(gate)


@pytest.mark.parametrize(
    ("cpus", "size"),
    [
        pytest.param(1 << 26, 1 << 40, id="18-2-to-26"),
        pytest.param((1 << 31) - 1, (1 << 63) - 1, id="19-most-of-a-type"),
        pytest.param("9" * 400, "9" * 400, id="20-400-digits"),
    ],
)
def test_numbers_too_large(gate: Gate, cpus: object, size: object) -> None:
    (gate.folder / "settings").write_text(f"cpus {cpus}\nbytes {size}\nunknown_bytes {size}\nunknown_seconds {cpus}\n")
    (gate.folder / "expected").write_text(f"1e999 {size} a.o\n{cpus} {size} b.o\n")
    assert finish(gate.sleep("a.o", 0), gate.sleep("b.o", 0)) == [(0, ""), (0, "")]
    command = [gate.memgate, "--simulate", str(cpus), str(size)]
    jobs = f"1e999 {size} 1 1\n{cpus} {size}\n1 1 after 1,2\n"
    done = subprocess.run(command, input=jobs, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "text", [pytest.param("-1", id="21-below-0"), pytest.param("nan", id="22-nan"), pytest.param("", id="23-nothing")]
)
def test_settings_that_are_no_numbers(gate: Gate, text: str) -> None:
    (gate.folder / "settings").write_text(f"cpus {text}\nbytes {text}\n")
    refused(gate, "cpus and bytes must be there and above 0")


def test_24_costs_that_are_no_numbers(gate: Gate) -> None:
    lines = [
        "nan nan a.o",
        "inf -5 a.o",
        "- - a.o",
        "1e308 99999999999999999999999 a.o",
        "x" * 20_000,
        "\0\0\0",
        " ",
        "1",
    ]
    (gate.folder / "expected").write_text("\n".join(lines))
    assert finish(gate.sleep("a.o", 0), gate.sleep("", 0)) == [(0, ""), (0, "")]


def test_25_ledger_is_a_fifo(gate: Gate) -> None:
    os.mkfifo(gate.ledger)
    ((returncode, said),) = finish(gate.start("true"), seconds=10)
    assert returncode == 0  # the job is what counts
    assert "cannot write" in said


def test_26_ledger_is_a_link_to_a_users_file(gate: Gate, tmp_path: Path) -> None:
    precious = tmp_path / "thesis.tex"
    precious.write_text(PRECIOUS)
    gate.ledger.symlink_to(precious)
    finish(gate.start("true"), seconds=10)
    assert precious.read_text() == PRECIOUS


def noted(gate: Gate, script: str) -> str:
    command = [gate.memgate, "--ledger", gate.ledger, "--note", "NOTE", "--", "/bin/sh", "-c", script]
    subprocess.run([str(part) for part in command], check=True, timeout=10)
    return gate.ledger.read_text()


def test_27_note_is_a_fifo(gate: Gate) -> None:
    assert '"note": ""' in noted(gate, 'mkfifo "$NOTE"')


def test_28_note_is_a_link_to_a_secret(gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    assert "s3cret" not in noted(gate, f'ln -s "{tmp_path}/secret" "$NOTE"')


def test_29_names_of_builds_without_an_end(gate: Gate) -> None:
    path = table(gate)
    path.write_bytes(struct.pack("<II", 2, PLACES) + b"A" * (SIZE - 8))
    works(gate)


def test_30_places_that_hold_everything(gate: Gate) -> None:
    """Jobs of the dead with all the memory there is: nobody holds their locks, so they count for nothing."""
    place = struct.pack("<IIQddqqqqi64s", 2, 9, 1, 1e308, 1e308, (1 << 63) - 1, (1 << 63) - 1, (1 << 63) - 1, 1, 5, b"")
    place = place.ljust(PLACE, b"\0")
    table(gate).write_bytes(struct.pack("<II", 2, PLACES) + bytes(HEAD - 8) + place * PLACES)
    works(gate)


@pytest.mark.parametrize(
    "seed", [pytest.param("a", id="31-a"), pytest.param("b", id="32-b"), pytest.param("c", id="33-c")]
)
def test_bytes_of_nobody(gate: Gate, seed: str) -> None:
    numbers = random.Random(seed)
    path = table(gate)
    for _ in range(10):
        path.write_bytes(struct.pack("<I", 2) + numbers.randbytes(SIZE - 4))
        status(gate)
        works(gate)


def test_34_lock_that_is_never_released(gate: Gate) -> None:
    with table(gate).open("r+b") as file:
        fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))  # F_OFD_SETLK
        refused(gate, "cannot use")
    works(gate)


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGKILL, id="35-kill"), pytest.param(signal.SIGSTOP, id="36-stop")]
)
def test_launcher(gate: Gate, number: int) -> None:
    """One that is killed gives its place back with its job; one that is stopped does not stop the others."""
    gate.settings(cpus=2)
    job = gate.sleep("job", 60)
    try:
        time.sleep(0.5)
        job.send_signal(number)
        assert finish(gate.sleep("other", 0), seconds=30) == [(0, "")]
    finally:
        gate.end()
    assert status(gate)["waiting"] == 0


def test_37_nothing_for_a_careful_compiler_to_say(c_compiler: Path, tmp_path: Path) -> None:
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wformat=2", "-Werror", "-O2"]
    strict = [*warnings, "-fanalyzer"]
    probe = [c_compiler, "-fanalyzer", "-x", "c", "-c", "-o", tmp_path / "probe.o", "-"]
    if subprocess.run(probe, input=b"", capture_output=True, check=False).returncode != 0:
        strict = warnings  # only GCC has an analyzer
    sources = sorted((ROOT / "csrc/memgate").glob("*.c"))
    subprocess.run([c_compiler, "-std=c17", *strict, "-o", tmp_path / "memgate", *sources], check=True)


def test_38_a_job_beside_a_writer_of_nonsense(gate: Gate) -> None:
    """Somebody writes into the table all the time; what can go wrong is the order, not the jobs."""
    path = table(gate)
    script = "import random, sys\nwhile True:\n f = open(sys.argv[1], 'r+b'); f.seek(random.randrange(8, 2000))\n"
    script += " f.write(random.randbytes(16)); f.close()\n"
    writer = subprocess.Popen([sys.executable, "-c", script, path])
    try:
        ended = finish(*[gate.start("true", build="b") for _ in range(20)], seconds=60)
    finally:
        writer.kill()
        writer.wait()
    # What was written may call a job off, as the failure of another one does.
    assert all(end in {(0, ""), (125, "memgate: not started: another job failed\n")} for end in ended)
    works(gate)


def test_39_many_jobs_and_a_table_that_is_cut_all_the_time(gate: Gate) -> None:
    """Two launchers that meet the same cut: the one that comes second finds the length that the first gave it."""
    path = table(gate)
    gate.settings(cpus=64)
    jobs = [gate.sleep(f"{number}", 1) for number in range(48)]
    end = time.monotonic() + 3
    while time.monotonic() < end:
        os.truncate(path, 0)
    assert finish(*jobs, seconds=60) == [(0, "")] * 48
    works(gate)
