"""The allocator, compiled from its pinned sources for each target: below the floor, and the same each time."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.audit.linux import check_floor, check_machine
from cpuwheels.config.host import is_foreign
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.elf import read_elf
from cpuwheels.core.entry_links import link_entries
from cpuwheels.core.store import Store
from cpuwheels.kernels.memory.plan import memory_cap, plan
from cpuwheels.kernels.request import KernelRequest
from cpuwheels.kernels.tcmalloc import FILE, get_tcmalloc
from cpuwheels.source.patched import PreparedSource
from cpuwheels.toolchain.helper_toolchain import native_helpers
from cpuwheels.toolchain.select import resolve_toolchain
from cpuwheels.verification.emulation.machine import emulated_machine
from layout import ROOT

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.toolchain.result import Toolchain

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="the cross compilers run on x86-64 Linux"
    ),
]

TARGETS = [target.id for target in load_matrix(ROOT).targets if target.tcmalloc]

USE = """
from pathlib import Path
kept = [bytes(size) for size in range(3000)]
print(Path('/proc/self/maps').read_text())
"""
"""It allocates 4.5 MB, and shows what it has loaded."""


@dataclasses.dataclass(frozen=True)
class Made:
    """A target's allocator, and the run that made it."""

    context: BuildContext
    library: Path


def make(context: BuildContext, environment: Environment, toolchain: Toolchain, folder: Path) -> Made:
    """Compile the allocator of a context's target in an empty store; nothing is compiled when it is asked for again."""
    store = Store(folder / "store")
    link_entries(store.root, ("downloads",), context.store.root)
    apart = dataclasses.replace(context, store=store, logs=folder / "logs")
    apart.logs.mkdir(parents=True)
    request = KernelRequest(
        root=context.root,
        target=context.target,
        source=PreparedSource("0.1.0", folder, 0, ()),
        toolchain=toolchain,
        environment=environment,
        onednn=None,
    )
    jobs = plan(context.root, context.target, context.options)
    cap = memory_cap(apart, jobs, native_helpers(context, toolchain).memgate)
    found = get_tcmalloc(apart, request, cap=cap, cache=lambda: None)
    assert found is not None
    assert get_tcmalloc(apart, request, cap=partial(pytest.fail, "compiled again"), cache=lambda: None) == found
    return Made(context, found.file)


def of_target(this: BuildContext, name: str) -> BuildContext:
    target = this.matrix.target(name)
    return dataclasses.replace(this, target=target, options=BuildOptions(toolchain="debian"))


@pytest.fixture(scope="module", params=TARGETS)
def made(
    request: pytest.FixtureRequest,
    this: BuildContext,
    environment: Environment,
    tmp_path_factory: pytest.TempPathFactory,
) -> Made:
    context = of_target(this, request.param)
    return make(context, environment, resolve_toolchain(context), tmp_path_factory.mktemp(request.param))


def test_it_is_where_vllm_looks_for_it(made: Made) -> None:
    assert made.library.as_posix().endswith(f"/{FILE}")
    assert made.library.match("vllm/libs/libtcmalloc_minimal*.so*")


def test_it_is_for_the_targets_machine_and_floor(made: Made) -> None:
    target = made.context.target
    with made.library.open("rb") as stream:
        facts = {FILE: read_elf(stream)}
    check_machine(facts, target.machine, where=made.library)
    check_floor(facts, load_policy(target.floor, target.machine), where=made.library)
    assert facts[FILE].versions
    assert not facts[FILE].unstripped
    assert not facts[FILE].executable_stack


def test_a_process_that_preloads_it_allocates_from_it(made: Made) -> None:
    # MALLOCSTATS: it reports what it holds when the process ends.
    variables = {"LD_PRELOAD": str(made.library), "MALLOCSTATS": "1"}
    command: list[str | Path] = [sys.executable]
    if is_foreign(made.context.target):
        cpu = next(library.emulated for library in made.context.target.libraries if library.emulated)
        emulator, *rest = emulated_machine(made.context).command(cpu)
        given = [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
        command, variables = [emulator, *given, *rest], {}
    done = subprocess.run([*command, "-c", USE], env=variables, capture_output=True, text=True, check=True)
    assert str(made.library) in done.stdout
    (in_use,) = (line for line in done.stderr.splitlines() if "Bytes in use by application" in line)
    assert int(in_use.removeprefix("MALLOC:").split()[0]) > 1 << 16


def test_it_has_the_same_bytes_wherever_it_is_compiled(made: Made, environment: Environment, tmp_path: Path) -> None:
    again = make(made.context, environment, resolve_toolchain(made.context), tmp_path / "another" / "folder")
    assert again.library.read_bytes() == made.library.read_bytes()
    assert again.library != made.library
