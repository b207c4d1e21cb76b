"""isaprobe, compiled as strictly as the project promises, on this machine."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from layout import ROOT


@pytest.fixture(scope="module")
def isaprobe(c_compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("isaprobe") / "isaprobe"
    sources = sorted((ROOT / "csrc/isaprobe").glob("*.c"))
    subprocess.run([c_compiler, "-std=c17", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, *sources], check=True)
    return program


@pytest.fixture(scope="module")
def answer(isaprobe: Path) -> dict[str, object]:
    done = subprocess.run([isaprobe], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_fields(answer):
    assert set(answer) == {"architecture", "vendor", "model", "features", "xcr0", "amx"}
    assert answer["architecture"] == platform.machine()
    assert len(set(answer["features"])) == len(answer["features"])


def test_agrees_with_the_kernel(answer):
    """Linux shows the same names, and a feature only if its register state is enabled."""
    text = Path("/proc/cpuinfo").read_text() if sys.platform == "linux" else ""
    line = next((line for line in text.splitlines() if line.startswith(("flags", "Features", "features"))), "")
    shown = set(line.partition(":")[2].split())
    # The kernel has these without a name in cpuinfo; amx_* also needs a permission it does not show.
    unnamed = {
        "amx_fp16",
        "amx_fp8",
        "amx_complex",
        "avx10",
        "avx10_2",
        "avx_ifma",
        "avx_ne_convert",
        "avx_vnni_int8",
        "avx_vnni_int16",
    }
    assert set(answer["features"]) - unnamed <= shown or not shown
    asked = {"avx2", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16", "avx512_vnni", "f16c", "fma"}
    asked |= {"asimd", "asimddp", "asimdhp", "bf16", "i8mm", "vx", "vxe", "vxe2"}
    assert asked & shown <= set(answer["features"])


def test_vector_features_only_with_their_register_state(answer):
    xcr0 = int(answer["xcr0"] or "0", 16)
    features = set(answer["features"])
    for prefix, state in (("avx", 0x6), ("avx512", 0xE6), ("amx", 0x60000)):
        if any(name.startswith(prefix) for name in features):
            assert xcr0 & state == state


def test_full_output_device_is_a_failure(isaprobe):
    if not Path("/dev/full").exists():
        return
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([isaprobe], stdout=full, check=False).returncode != 0
