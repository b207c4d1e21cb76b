"""Programs of other machines in a root of their own: emulated with all that they start, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import default_root
from cpuwheels.image.tools import Tools
from cpuwheels.pipeline.context import open_context
from cpuwheels.toolchain.select import resolve_toolchain
from cpuwheels.verification.emulation import foreign_programs
from cpuwheels.verification.emulation.foreign_programs import program_prefix, registration
from cpuwheels.verification.emulation.qemu import find_emulator
from layout import ROOT

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.toolchain.result import Toolchain

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "emulation"
TARGETS = [target for target in load_matrix(ROOT).targets if target.root]
SCRIPT = foreign_programs._SCRIPT


@pytest.fixture(scope="module", params=TARGETS, ids=lambda target: target.id)
def this(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BuildContext:
    paths = Paths(ROOT, default_root(), tmp_path_factory.mktemp("dist"))
    return open_context(paths, load_matrix(ROOT), request.param, BuildOptions(), Reporter(request.param.id))


@pytest.fixture(scope="module")
def toolchain(this: BuildContext) -> Toolchain:
    return resolve_toolchain(this)


@pytest.fixture(scope="module")
def program(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that starts itself once more."""
    path = tmp_path_factory.mktemp("program") / "twice"
    flags = [*toolchain.compile_flags, *toolchain.link_flags]
    subprocess.run([toolchain.cc, *flags, HERE / "twice.c", "-o", path], check=True)
    return path


@pytest.fixture(scope="module")
def sandbox(this: BuildContext, toolchain: Toolchain, program: Path) -> list[str | Path]:
    """What starts a command in a root that has the program and the target's C library, and no emulator."""
    assert toolchain.sysroot is not None
    root = ["--ro-bind", toolchain.sysroot / "lib", "/lib", "--ro-bind", program, "/bin/twice", "--proc", "/proc"]
    return [Tools(this).program("bwrap"), "--unshare-all", *root]


def said(command: list[str | Path], **env: str) -> str:
    done = subprocess.run(command, env=os.environ | env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_and_what_it_starts_are_emulated_in_a_root_without_the_emulator(
    this: BuildContext, sandbox: list[str | Path]
) -> None:
    prefix, machine = program_prefix(this, this.target.machine), this.target.machine
    assert said([*prefix, *sandbox, "/bin/twice", "more"]) == f"first {machine} more\nsecond {machine} more\n"


def test_the_cpu_is_the_one_that_the_environment_names(this: BuildContext, sandbox: list[str | Path]) -> None:
    prefix = program_prefix(this, this.target.machine)
    with pytest.raises(AssertionError, match="no such CPU"):
        said([*prefix, *sandbox, "/bin/twice"], QEMU_CPU="no such CPU")


def test_nothing_is_left_on_this_machine(this: BuildContext, program: Path, sandbox: list[str | Path]) -> None:
    said([*program_prefix(this, this.target.machine), *sandbox, "/bin/twice"])
    if not foreign_programs.registered(this.target.machine):
        with pytest.raises(OSError, match="Exec format error"):
            subprocess.run([program], check=False)


def test_the_script_says_what_the_kernel_refuses(this: BuildContext, tmp_path: Path) -> None:
    good = registration(this.target.machine, find_emulator(this, this.target.machine))
    gone = registration(this.target.machine, tmp_path / "gone")
    for line, command, why in [
        (gone, "true", "the kernel refuses /proc/sys/fs/binfmt_misc/register: No such file or directory"),
        (good, str(tmp_path / "gone"), f"{tmp_path / 'gone'}: No such file or directory"),
    ]:
        done = subprocess.run([sys.executable, SCRIPT, line, command], check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr.strip()) == (125, why)
