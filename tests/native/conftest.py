from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gate_folder import Gate
from layout import ROOT
from no_network import no_network  # noqa: F401


@pytest.fixture(scope="session")
def memgate(c_compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("memgate") / "memgate"
    sources = sorted((ROOT / "csrc/memgate").glob("*.c"))
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
    subprocess.run([c_compiler, "-std=c17", "-O2", *warnings, "-o", program, *sources], check=True)
    return program


@pytest.fixture
def gate(memgate: Path, tmp_path: Path) -> Gate:
    return Gate(memgate, tmp_path / "gate")
