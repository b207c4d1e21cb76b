"""The real torch on a processor whose CPUID hides the tiles of AMX: it dies, the limit that is worked out saves it.

Needs a processor with AMX and with CPUID faulting. Elsewhere these tests are skipped with that reason, and what such a
machine comes to is tried with tables (tests/unit/test_isaprobe_tables.py, tests/unit/test_onednn_isa.py).
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tiny_project import PROJECT

from cpuwheels.benches import this_cpu
from cpuwheels.errors import PreflightError
from cpuwheels.native import CpuFeatures
from cpuwheels.onednn_isa import onednn_limit
from cpuwheels.parity.preflight import require_products

if TYPE_CHECKING:
    from cpuwheels.environment import Environment
    from cpuwheels.run import Run

pytestmark = pytest.mark.slow


@pytest.fixture
def python(without_palette: Path, environment: Environment, tmp_path: Path) -> Path:
    """The interpreter with the real torch, on that processor."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec "{without_palette}" "{environment.python}" "$@"\n')
    program.chmod(0o755)
    return program


def test_torch_dies_there_and_the_limit_saves_it(
    this: Run, without_palette: Path, python: Path, c_compiler: Path, tmp_path: Path
) -> None:
    isaprobe = tmp_path / "isaprobe"
    sources = sorted((PROJECT / "csrc" / "isaprobe").glob("*.c"))
    subprocess.run([c_compiler, "-std=c17", "-o", isaprobe, *sources], check=True)
    told = subprocess.run([without_palette, isaprobe], check=True, capture_output=True, text=True).stdout
    limit = onednn_limit(CpuFeatures.model_validate_json(told), {})
    assert limit is not None
    with pytest.raises(PreflightError, match="a product in bfloat16 ended with status 132"):  # 128 + SIGILL
        require_products(python, {}, tmp_path / "log")
    require_products(python, limit.environment(), tmp_path / "log")
    assert onednn_limit(this_cpu(this), {}) is None
