"""Kernels of the real wheel that no CPU has run yet: they are in one library alone, and refuse to start elsewhere."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from cpuwheels.audit.binutils import Binutils
from cpuwheels.audit.disassembly import collect
from cpuwheels.config.context import BuildContext
from cpuwheels.config.host import markers
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.capture import blocks
from cpuwheels.core.console import Reporter
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.store import default_root
from cpuwheels.environment.test_env import layered_environment
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.provenance import read_note
from cpuwheels.pipeline.test_environment import this_cpu
from cpuwheels.toolchain.select import resolve_toolchain
from cpuwheels.wheel.kernel_wheel import read_wheel
from layout import ROOT

INSTRUCTIONS = {"AMX-FP8": {"tdphf8ps", "tdpbf8ps"}, "AVX10.2": {"vcvtph2hf8", "vcvtph2bf8"}}
"""Intel 319433 and 355989; both for numbers of 8 bits with 4 and with 5 bits of exponent."""
FEATURES = {"amx_fp8", "avx10_2"}
REFUSED = """
import torch
torch.ops.load_library("{library}")
ops, one = torch.ops._C, torch.ones(1, dtype=torch.int32)
start, slots = torch.tensor([0, 1], dtype=torch.int32), torch.zeros(1, dtype=torch.int64)
key, cache = torch.ones(1, 1, 64, dtype=torch.bfloat16), torch.zeros(1, 1, 64, 64, dtype=torch.uint8)
print(ops.cpu_attn_has_isa("amx_fp8"))
for call in (
    lambda: ops.get_scheduler_metadata(
        1, 1, 1, 64, one, torch.bfloat16, start, True, -1, "amx_fp8", False, None, "fp8_e4m3"
    ),
    lambda: ops.cpu_attn_reshape_and_cache(key, key, cache, cache, slots, "amx_fp8", 1.0, 1.0, "fp8_e4m3"),
):
    try:
        call()
    except RuntimeError as error:
        print(str(error).splitlines()[0])
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel() -> Path:
    (found,) = (ROOT / "dist" / "x86" / load_matrix(ROOT).default_source).glob("*.whl")
    return found


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if ".so" in name])
    return folder


@pytest.fixture(scope="module")
def this(tmp_path_factory: pytest.TempPathFactory) -> BuildContext:
    matrix = load_matrix(ROOT)
    paths = Paths(ROOT, default_root(), tmp_path_factory.mktemp("dist"))
    return open_context(paths, matrix, matrix.target("x86"), BuildOptions(toolchain="debian"), Reporter("x86"))


def test_each_of_their_instructions_is_in_one_library_alone(unpacked: Path, this: BuildContext) -> None:
    binutils = Binutils.of(resolve_toolchain(this))
    assert binutils is not None
    wanted = set.union(*INSTRUCTIONS.values())
    held = {}
    for library in sorted(unpacked.rglob("*.so*")):
        texts = collect(blocks([binutils.objdump, "-d", "-w", "--no-show-raw-insn", "--no-addresses", library]))
        if found := {text.split(maxsplit=1)[0].decode() for text in texts.values()} & wanted:
            held[library.name] = found
    assert held == {"_C.abi3.so": wanted}


def test_the_wheel_and_its_record_say_that_no_cpu_has_run_them(wheel: Path) -> None:
    note = read_note(wheel)
    assert note is not None
    assert note.untried == {"_C": tuple(INSTRUCTIONS)}
    record = json.loads((wheel.parent / "record.json").read_text())
    assert record["wheel"]["untried"] == {"_C": list(INSTRUCTIONS)}
    assert all(f"{name} of _C" in " ".join((wheel.parent / "report.html").read_text().split()) for name in INSTRUCTIONS)


def test_attention_refuses_to_start_where_the_cpu_lacks_them(
    unpacked: Path, wheel: Path, this: BuildContext, tmp_path: Path
) -> None:
    if this_cpu(this).features >= FEATURES:
        pytest.skip("this CPU has AMX-FP8 and AVX10.2")
    needed = read_wheel(wheel, this.target, markers(this.target, this.matrix.python[0])).torch
    python = layered_environment(torch_environment(this, needed), tmp_path / "venv", this.logs)
    script = REFUSED.format(library=unpacked / "vllm/_C.abi3.so")
    done = subprocess.run(
        [python, "-c", script], env=closed_environment({}), capture_output=True, text=True, check=False
    )
    refusal = "no AMX-FP8 and AVX10.2 here"
    assert (done.returncode, done.stdout.splitlines()) == (0, ["False", refusal, refusal]), done.stderr
