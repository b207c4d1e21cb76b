"""The real wheel on a processor whose CPUID hides the tiles of AMX: its library holds torch's oneDNN back by itself.

Needs a processor with AMX and with CPUID faulting, and is skipped with that reason elsewhere.
"""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.store import default_root
from cpuwheels.environment.test_env import layered_environment
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.pipeline.context import open_context
from layout import ROOT

LIBRARY = "vllm/_C.abi3.so"
PRODUCT = """
a = torch.randn(64, 64, dtype=torch.bfloat16)
print((a @ a).float().sum())
"""
LIMIT = """
import ctypes
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print(getenv(b"ONEDNN_MAX_CPU_ISA"))
"""

pytestmark = pytest.mark.slow


def test_torch_lives_once_the_library_is_loaded(without_palette: Path, tmp_path: Path) -> None:
    (wheel,) = sorted((ROOT / "dist" / "x86" / "0.33.0").glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name == LIBRARY or "vllm.libs/" in name])
    matrix = load_matrix(ROOT)
    paths = Paths(ROOT, default_root(), tmp_path / "dist")
    this = open_context(paths, matrix, matrix.target("x86"), BuildOptions(), Reporter("x86"))
    python = layered_environment(torch_environment(this, "2.14.0"), tmp_path / "venv", this.logs)
    load = f"torch.ops.load_library('{tmp_path / LIBRARY}')"

    def ask(script: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [without_palette, python, "-c", f"import torch\n{script}"]
        return subprocess.run(command, env=closed_environment(env), capture_output=True, text=True, check=False)

    assert ask(PRODUCT).returncode == 132  # 128 + SIGILL: so the processor is as it should be for this test
    for env, limit in (
        ({}, "AVX512_CORE_FP16"),
        ({"ONEDNN_MAX_CPU_ISA": "", "DNNL_MAX_CPU_ISA": ""}, "AVX512_CORE_FP16"),
        ({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, "AVX512_CORE"),
    ):
        done = ask(load + PRODUCT + LIMIT, **env)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == f"b'{limit}'"
    held = ask(load + PRODUCT + LIMIT, DNNL_MAX_CPU_ISA="AVX512_CORE")
    assert (held.returncode, held.stdout.splitlines()[-1]) == (0, "None")
