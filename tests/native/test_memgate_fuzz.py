"""memgate's reader of its table against tables that libFuzzer makes up, with sanitizers.

The pinned clang has it. On other machines it is the machine's, or else a driver that changes tables blindly.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from layout import ROOT, TESTS
from pinned_root import pinned_root

SECONDS = int(os.environ.get("MEMGATE_FUZZ_SECONDS", "600"))
CORPUS = TESTS / "native" / "memgate_fuzz" / "corpus.txt"
DRIVER = TESTS / "helpers" / "memgate_fuzz.c"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def compiled(folder: Path, compiler: str | Path, *flags: str) -> Path | None:
    """Return the driver's program, or nothing if the compiler lacks what the flags ask for."""
    program, main = folder / "fuzz", ROOT / "csrc/memgate/main.c"
    sources = [source for source in sorted((ROOT / "csrc/memgate").glob("*.c")) if source != main]
    command = [compiler, "-std=c17", "-O1", "-g", "-Wall", "-Wextra", *flags, "-o", program, DRIVER, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return program if done.returncode == 0 else None


@pytest.fixture(scope="module")
def clang() -> Path | None:
    """The folder of the pinned clang, fetched before the test, which has no network; None where it does not run."""
    here = (platform.system(), platform.machine()) == ("Linux", "x86_64")
    return pinned_root("clang", "clang") if here else None


def libfuzzer(folder: Path, root: Path | None) -> Path | None:
    """Return the program with libFuzzer; nothing if there is no clang."""
    flags = ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all", "-DLIBFUZZER"]
    if root is None:
        own = shutil.which("clang")
        return compiled(folder, own, *flags) if own else None
    libraries = root / "usr/lib/x86_64-linux-gnu"
    flags += [f"--sysroot={root}", f"-B{root}/usr/bin", f"-Wl,-rpath,{libraries}"]
    flags += [f"-Wl,--dynamic-linker={libraries}/ld-linux-x86-64.so.2"]
    program = compiled(folder, root / "usr/bin/clang-19", *flags)
    assert program is not None
    return program


def unpacked(folder: Path) -> list[Path]:
    """Write each table of the corpus into a file."""
    tables: dict[str, str] = {}
    name = ""
    for line in CORPUS.read_text().splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif line and not line.startswith("#"):
            tables[name] = tables.get(name, "") + line
    folder.mkdir()
    for table, text in tables.items():
        (folder / table).write_bytes(bytes.fromhex(text))
    assert len(tables) == 4
    return sorted(folder.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 300)
def test_no_table_makes_it_crash_or_hang(
    c_compiler: Path, clang: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=1")
    monkeypatch.chdir(tmp_path)
    corpus = unpacked(tmp_path / "corpus")
    if program := libfuzzer(tmp_path, clang):
        limits = [f"-max_total_time={SECONDS}", "-max_len=8192", "-len_control=0", "-timeout=20"]
        # Its own limit is for the peak since before it was started, when it was a fork of this process.
        limits += ["-rss_limit_mb=0", "-malloc_limit_mb=512"]
        command = [program, *limits, "found", tmp_path / "corpus"]
        (tmp_path / "found").mkdir()
    else:
        program = compiled(tmp_path, c_compiler, *SANITIZERS) or compiled(tmp_path, c_compiler)
        assert program is not None
        command = [program, ".", str(os.getpid()), str(SECONDS), *corpus]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS + 240)
    assert done.returncode == 0, f"{done.stdout[-1000:]}{done.stderr[-5000:]}\nthe table is {tmp_path}/table"
