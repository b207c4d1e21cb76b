"""The choice on CPUs of other machines: the cross compilers' choosers, and QEMU's word for what each CPU can do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.audit.linux import check_floor
from cpuwheels.config.matrix import Target, load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.console import Reporter
from cpuwheels.core.elf import read_elf
from cpuwheels.core.store import default_root
from cpuwheels.kernels.isa_dispatch import build_chooser
from cpuwheels.pipeline.context import open_context
from cpuwheels.toolchain.select import resolve_toolchain
from cpuwheels.verification.emulation.qemu import find_emulator
from layout import ROOT

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.toolchain.result import Toolchain

pytestmark = pytest.mark.slow

TARGETS = [target for target in load_matrix(ROOT).targets if target.chooser]
SOURCES = [ROOT / "csrc/chooser/choose.c", *(ROOT / "csrc/isaprobe").glob("*.c")]

LESS = {
    "arm": [("cortex-a53", "(needs asimddp, asimdhp, bf16, i8mm, which this CPU lacks)")],
    "s390x": [
        ("max,vxeh2=off", "Z15 (needs vxe2, which this CPU lacks)"),
        ("z900-base", "Z15 (needs vx, vxe, vxe2, which this CPU lacks)"),
    ],
}
"""CPUs, as QEMU names them, that can run none of a target's libraries, and a part of what they are told."""


@pytest.fixture(scope="module", params=TARGETS, ids=lambda target: target.id)
def this(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BuildContext:
    paths = Paths(ROOT, default_root(), tmp_path_factory.mktemp("dist"))
    return open_context(paths, load_matrix(ROOT), request.param, BuildOptions(), Reporter(request.param.id))


@pytest.fixture(scope="module")
def target(this: BuildContext) -> Target:
    return this.target


@pytest.fixture(scope="module")
def toolchain(this: BuildContext) -> Toolchain:
    return resolve_toolchain(this)


@pytest.fixture(scope="module")
def chooser(this: BuildContext, toolchain: Toolchain) -> Path:
    return build_chooser(this, toolchain)


@pytest.fixture(scope="module")
def chosen(
    this: BuildContext, toolchain: Toolchain, chooser: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """What the chooser's own code says on an emulated CPU."""
    program = tmp_path_factory.mktemp("choice") / "choice"
    sources = [Path(__file__).parent / "emulation/choice.c", *(path for path in SOURCES if path.name != "main.c")]
    includes = [f"-I{folder}" for folder in (chooser.parent, ROOT / "csrc/chooser", ROOT / "csrc/isaprobe")]
    flags = [*toolchain.compile_flags, *toolchain.link_flags, f"-march={this.target.baseline}"]
    subprocess.run([toolchain.cc, *flags, *includes, "-o", program, *sources], check=True)
    emulator = find_emulator(this, this.target.machine)

    def said(cpu: str, choice: str = "") -> str:
        command = [emulator, "-L", str(toolchain.sysroot), "-cpu", cpu, program]
        done = subprocess.run(command, env={"CPUWHEELS_ISA": choice}, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    return said


def test_each_library_is_chosen_on_the_cpu_that_it_is_tried_on(target: Target, chosen: Callable[..., str]) -> None:
    emulated = [library for library in target.libraries if library.emulated]
    assert emulated
    assert [chosen(str(library.emulated)) for library in emulated] == [library.name for library in emulated]


def test_a_better_cpu_runs_the_lesser_library_if_it_is_asked_for(target: Target, chosen: Callable[..., str]) -> None:
    best, last = target.libraries[0], target.libraries[-1]
    assert chosen(str(best.emulated), last.name.removeprefix(f"{target.chooser}_")) == last.name


def test_what_a_lesser_cpu_lacks_is_told(target: Target, chosen: Callable[..., str]) -> None:
    for cpu, told in LESS[target.id]:
        said = chosen(cpu)
        assert said.startswith("this CPU")
        assert f"the wheel is for: {target.description}; it has: " in said
        assert told in said


def test_the_module_needs_the_c_library_alone_and_keeps_the_floor(target: Target, chooser: Path) -> None:
    with chooser.open("rb") as stream:
        facts = read_elf(stream)
    assert {*facts.needed} <= {"libc.so.6", "libdl.so.2"}
    assert not facts.unstripped
    check_floor({chooser.name: facts}, load_policy(target.floor, target.machine), where=chooser)
