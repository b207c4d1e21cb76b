"""The real torch on a processor whose CPUID hides the tiles of AMX: it dies, the limit that is worked out saves it.

Needs a processor with AMX and with CPUID faulting. Elsewhere these tests are skipped with that reason, and what such a
machine comes to is tried with tables (tests/unit/test_isaprobe_tables.py, tests/unit/test_onednn_isa.py).
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import PreflightError
from cpuwheels.pipeline.test_environment import this_cpu
from cpuwheels.toolchain.native_helpers import CpuFeatures
from cpuwheels.verification.onednn_isa import onednn_limit
from cpuwheels.verification.parity.preflight import require_products
from layout import ROOT

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment

pytestmark = pytest.mark.slow


@pytest.fixture
def python(without_palette: Path, environment: Environment, tmp_path: Path) -> Path:
    """The interpreter with the real torch, on that processor."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec "{without_palette}" "{environment.python}" "$@"\n')
    program.chmod(0o755)
    return program


def test_torch_dies_there_and_the_limit_saves_it(
    this: BuildContext, without_palette: Path, python: Path, c_compiler: Path, tmp_path: Path
) -> None:
    isaprobe = tmp_path / "isaprobe"
    sources = sorted((ROOT / "csrc" / "isaprobe").glob("*.c"))
    subprocess.run([c_compiler, "-std=c17", "-o", isaprobe, *sources], check=True)
    told = subprocess.run([without_palette, isaprobe], check=True, capture_output=True, text=True).stdout
    limit = onednn_limit(CpuFeatures.model_validate_json(told), {})
    assert limit is not None
    with pytest.raises(PreflightError, match="a product in bfloat16 ended with status 132"):  # 128 + SIGILL
        require_products(python, {}, tmp_path / "log")
    require_products(python, limit.environment(), tmp_path / "log")
    assert onednn_limit(this_cpu(this), {}) is None
