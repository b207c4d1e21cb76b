"""The mask for CPUID, on this processor: what programs are told, and that they notice nothing else.

Where the processor or the virtual machine has no CPUID faulting, these tests are skipped with that reason.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from layout import HELPERS

Compile = Callable[..., Path]


@pytest.fixture(scope="module")
def compiled(c_compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Compile:
    folder = tmp_path_factory.mktemp("programs")

    def compiled(name: str, *sources: Path, options: tuple[str, ...] = ()) -> Path:
        strict = ["-std=c17", "-O2", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([c_compiler, *strict, *options, "-o", folder / name, *sources], check=True)
        return folder / name

    return compiled


@pytest.fixture(scope="module")
def isaprobe(compiled: Compile) -> Path:
    return compiled("isaprobe", *sorted((HELPERS.parents[1] / "csrc/isaprobe").glob("*.c")))


@pytest.fixture(scope="module")
def user(compiled: Compile) -> Path:
    return compiled("user", HELPERS / "cpuid_user.c", options=("-pthread",))


@pytest.fixture(scope="module")
def static_user(compiled: Compile, user: Path) -> Path:
    assert user.exists()  # so it does compile
    try:
        return compiled("static-user", HELPERS / "cpuid_user.c", options=("-pthread", "-static"))
    except subprocess.CalledProcessError:
        pytest.skip("this compiler has no static C library")


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def told(*command: str | Path) -> dict[str, Any]:
    done = run(*command)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_is_changed_unasked(cpuid_mask: Path, isaprobe: Path) -> None:
    assert told(cpuid_mask, "--", isaprobe) == told(isaprobe)


def test_a_missing_leaf(cpuid_mask: Path, isaprobe: Path) -> None:
    plain, masked = told(isaprobe), told(cpuid_mask, "--announce-amx", "--max-leaf", "0x1c", "--", isaprobe)
    assert masked["amx"]["palette"] is None
    assert masked["xcr0"] == plain["xcr0"]
    # Leaf 0x1E, which is gone as well, names these.
    named = {"amx_bf16", "amx_tile", "amx_int8", "amx_fp8"}
    assert set(masked["features"]) - named == set(plain["features"]) - named


def test_amx_is_announced(cpuid_mask: Path, user: Path) -> None:
    bits = 1 << 22 | 1 << 24 | 1 << 25
    plain, masked = (run(*mask, user, "7", "0").stdout.split() for mask in ((), (cpuid_mask, "--announce-amx", "--")))
    assert masked == [*plain[:3], f"{int(plain[3], 16) | bits:x}"]


def test_an_empty_palette(cpuid_mask: Path, isaprobe: Path) -> None:
    plain, masked = told(isaprobe)["amx"], told(cpuid_mask, "--zero-palette", "--", isaprobe)["amx"]
    nothing = {"tiles": 0, "rows": 0, "bytes_per_row": 0}
    assert masked == (plain and plain | {"palette": plain["palette"] and nothing})


def test_leaves_beyond_the_highest_have_its_data(cpuid_mask: Path, user: Path) -> None:
    masked = [cpuid_mask, "--max-leaf", "0xd", "--", user]
    # Leaf 0xD, of register state, is another one in every subleaf.
    state = [run(user, "0xd", str(subleaf)).stdout for subleaf in range(3)]
    assert len(set(state)) == 3
    for number in ("0xe", "0x1d", "0x3fffffff"):
        assert [run(*masked, number, str(subleaf)).stdout for subleaf in range(3)] == state
    assert run(*masked, "0x80000002", "0").stdout == run(user, "0x80000002", "0").stdout


@pytest.mark.parametrize("way", ["main", "thread", "fork", "vfork", "exec"])
@pytest.mark.parametrize("program", ["user", "static_user"])
def test_every_way_to_execute_cpuid(cpuid_mask: Path, request: pytest.FixtureRequest, program: str, way: str) -> None:
    done = run(cpuid_mask, "--max-leaf", "0x5", "--", request.getfixturevalue(program), way)
    assert (done.stdout, done.stderr, done.returncode) == ("5\n", "", 0)


def test_a_program_with_its_own_handler(cpuid_mask: Path, user: Path) -> None:
    done = run(cpuid_mask, "--max-leaf", "0x5", "--", user, "handler")
    assert (done.stdout, done.returncode) == ("5 1\n", 0)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 3", 3),
        ("kill -SEGV $$", 128 + signal.SIGSEGV),
        ("kill -ILL $$", 128 + signal.SIGILL),
        ("trap 'exit 7' USR1; kill -USR1 $$; exit 1", 7),
        # A process of its own that outlives the command does not change the status.
        ("(sleep 0.2; exit 4) & exit 6", 6),
    ],
)
def test_status(cpuid_mask: Path, script: str, status: int) -> None:
    assert run(cpuid_mask, "--", "/bin/sh", "-c", script).returncode == status


def test_a_real_fault_is_the_programs_own(cpuid_mask: Path, user: Path) -> None:
    assert run(cpuid_mask, "--", user, "crash").returncode == 128 + signal.SIGSEGV


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--", "/nonexistent/program"), 127, "/nonexistent/program: No such file"),
        (("--",), 126, "no command"),
        (("--max-laef", "1", "--", "true"), 126, "--max-laef"),
    ],
)
def test_bad_commands(cpuid_mask: Path, arguments: tuple[str, ...], status: int, words: str) -> None:
    done = run(cpuid_mask, *arguments)
    assert done.returncode == status
    assert words in done.stderr


def test_a_stopped_program_stays_so_until_it_is_continued(cpuid_mask: Path) -> None:
    script = "(sleep 0.2; echo now; kill -CONT $$) & kill -STOP $$; echo on; exit 5"
    done = run(cpuid_mask, "--", "/bin/sh", "-c", script)
    assert (done.stdout, done.returncode) == ("now\non\n", 5)


def test_nothing_is_left_when_it_is_killed(cpuid_mask: Path) -> None:
    command = [cpuid_mask, "--", "/bin/sh", "-c", "echo $$; read line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as mask:
        assert mask.stdout is not None
        child = int(mask.stdout.readline())
        assert _runs(child)
        mask.kill()
        deadline = time.monotonic() + 10
        while _runs(child) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not _runs(child)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
