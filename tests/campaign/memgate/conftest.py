from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gate_folder import Gate
from layout import ROOT

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")


@pytest.fixture(scope="session")
def sanitized(c_compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """memgate that ends with a report at the first access or calculation outside of what C allows."""
    folder = tmp_path_factory.mktemp("sanitized")
    program, sources = folder / "memgate", sorted((ROOT / "csrc/memgate").glob("*.c"))
    command = [c_compiler, "-std=c17", "-O1", "-DLOCK_SECONDS=1", "-o", program, *sources]
    # The pinned compiler has no sanitizers' libraries; then crashes and hangs are what is seen.
    if subprocess.run([*command, *SANITIZERS], capture_output=True, check=False).returncode != 0:
        subprocess.run(command, check=True)
    return program


@pytest.fixture
def gate(sanitized: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    folder = Gate(sanitized, tmp_path / "gate")
    yield folder
    folder.end()
