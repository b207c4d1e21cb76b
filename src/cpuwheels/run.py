"""What the stages of one run share, and the stages that more than one command needs."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from packaging.version import Version

from cpuwheels.compiler_cache.program import find_ccache
from cpuwheels.compiler_cache.settings import compiler_cache
from cpuwheels.debian.mirrors import mirrors
from cpuwheels.environment import EnvironmentRequest, build_environment
from cpuwheels.errors import LockedError, ToolchainError
from cpuwheels.gate.costs import read_costs
from cpuwheels.gate.folder import GateFolder
from cpuwheels.gate.session import CapPlan
from cpuwheels.memory import WorstFile, available_memory, choose_cap, job_limits, plan_jobs, usable_cpus
from cpuwheels.native import native_tools
from cpuwheels.output import new_logs
from cpuwheels.platforms import is_foreign, own_target, this_machine
from cpuwheels.runtime import separate_environment
from cpuwheels.storage import storage_errors
from cpuwheels.store import Store
from cpuwheels.toolchain.select import resolve_toolchain
from cpuwheels.torch_foreign import ForeignRequest, foreign_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.compiler_cache.settings import CompilerCache
    from cpuwheels.config import Places
    from cpuwheels.console import Reporter
    from cpuwheels.environment import Environment
    from cpuwheels.memory import JobPlan
    from cpuwheels.model.matrix import Matrix, Target
    from cpuwheels.model.pins import TorchPin
    from cpuwheels.native import NativeTools
    from cpuwheels.options import BuildOptions
    from cpuwheels.toolchain.result import Toolchain
    from cpuwheels.toolchain.select import Choice

TOOLS_LOCK = "build-tools.txt"
PARITY_LOCK = "parity.txt"


@dataclass(frozen=True)
class Run:
    """One run of a command for one target.

    Attributes:
        places: Folders to read and write.
        matrix: The configuration.
        target: What is built or checked.
        options: What the user chose.
        store: The stores.
        reporter: Told of every step.
        logs: This run's log folder.
    """

    places: Places
    matrix: Matrix
    target: Target
    options: BuildOptions
    store: Store
    reporter: Reporter
    logs: Path

    def lock(self, name: str) -> Path:
        """Return the place of a Python lock."""
        return self.places.root / "locks" / name

    def mirrors(self) -> tuple[str, ...]:
        """Return where Debian's packages come from, in order."""
        return mirrors(self.matrix.debian.mirrors, os.environ)

    def toolchain(self) -> Toolchain:
        """Return the target's compilers and sysroot."""
        return self._toolchain(self.target, self.options.toolchain)

    def native(self, toolchain: Toolchain | None = None) -> NativeTools:
        """Return our native helpers, which run on this machine.

        They are compiled with the target's toolchain, or where that makes programs for another kind of machine, with
        the toolchain of this machine's own target.

        Args:
            toolchain: The target's, if it is at hand.

        Raises:
            ToolchainError: No target of the matrix is of this machine's kind.
        """
        if is_foreign(self.target):
            toolchain = self._own_toolchain()
        elif toolchain is None:
            toolchain = self.toolchain()
        flags = (*toolchain.compile_flags, *toolchain.link_flags)
        return native_tools(self.places.root, toolchain.cc, flags, toolchain.digest, store=self.store, logs=self.logs)

    def _own_toolchain(self) -> Toolchain:
        own = own_target(self.matrix)
        if own is None:
            raise ToolchainError(
                f"nothing compiles the helpers that run on this machine ({' '.join(this_machine())})",
                where="matrix.yaml: targets",
                next_step=f"add a target of this machine's kind, or build {self.target.id} on {self.target.system} "
                f"{self.target.machine}",
            )
        self.reporter.info(f"helpers that run on this machine are compiled with the toolchain of {own.id}")
        return self._toolchain(own, helpers_choice(self.options.toolchain))

    def _toolchain(self, target: Target, choice: Choice) -> Toolchain:
        return resolve_toolchain(
            target, choice=choice, root=self.places.root, debian=self.matrix.debian,
            store=self.store, reporter=self.reporter, logs=self.logs,
        )  # fmt: skip

    def torch_pin(self, torch: str) -> TorchPin:
        """Return what the matrix says of a torch version; of one that it does not know, where to look for it."""
        if torch in self.matrix.torch:
            return self.matrix.torch[torch]
        newest = self.matrix.torch[max(self.matrix.torch, key=Version)]
        return newest.model_copy(update={"wheels": (), "alternates": ()})

    def check_torch(self, torch: str) -> None:
        """Say aloud, before anything is fetched, that a torch version is not one that the matrix knows.

        Raises:
            LockedError: It is not, and the run is locked.
        """
        if torch in self.matrix.torch:
            return
        if self.options.locked:
            raise LockedError(
                f"the source pins torch {torch}, which the matrix does not know",
                where="matrix.yaml: torch",
                next_step=f"add it there, or build without --locked; known: {', '.join(self.matrix.torch)}",
            )
        self.reporter.announce(
            f"the source pins torch {torch}, which matrix.yaml does not know: whatever CPU build of it is to be had is "
            "taken; the build record has its digest"
        )

    def environment(self, torch: str) -> Environment:
        """Return the build environment with a torch version.

        Raises:
            TorchError: No place has a CPU build of it.
            LockedError: It is not pinned by content, and the run is locked.
        """
        pin, locked = self.torch_pin(torch), self.options.locked
        foreign = None
        if is_foreign(self.target):
            asked = ForeignRequest(
                torch, pin, self.target, self.matrix.python, self.places.root, self.mirrors(), locked=locked
            )
            foreign = foreign_torch(asked, store=self.store, reporter=self.reporter, logs=self.logs, environ=os.environ)
        request = EnvironmentRequest(
            torch=torch, pin=pin, target=self.target, pythons=self.matrix.python,
            lock=self.lock(TOOLS_LOCK), locked=locked, foreign=foreign,
        )  # fmt: skip
        environment = build_environment(request, self.store, self.reporter, self.logs)
        self.reporter.info(f"torch {environment.torch_version} from {environment.torch_from}")
        return environment

    def separate_environment(self, environment: Environment, folder: Path) -> Path:
        """Return the interpreter of a new environment with the same torch."""
        return separate_environment(environment, folder, self.lock(TOOLS_LOCK), self.logs)

    def cap(self, jobs: JobPlan, memgate: Path) -> Callable[[Path], CapPlan]:
        """Return how a kernel build with a gate in some folder is kept below its cap."""
        name = _costs_name(self.target, self.options)

        def plan_for(folder: Path) -> CapPlan:
            return CapPlan(
                jobs=jobs, gate=GateFolder(folder, memgate), seed=_seed(self.places.root, self.target, self.options),
                learned=self.store.root / "measured" / name, worst_peak=_worst_peak(self.target, self.options),
            )  # fmt: skip

        return plan_for

    def compiler_cache(self) -> CompilerCache | None:
        """Return the compiler cache, unless the user wants none or there is none for this machine."""
        if self.options.compiler_cache == "off":
            return None
        program = find_ccache(
            self.matrix.compiler_cache, root=self.places.root, mirrors=mirrors(self.matrix.debian.mirrors, os.environ),
            store=self.store, reporter=self.reporter,
        )  # fmt: skip
        return compiler_cache(program, self.store.root, os.environ) if program else None


def helpers_choice(choice: Choice) -> Choice:
    """Return how the compiler of the helpers is chosen where the target is of another kind of machine.

    A compiler of this machine that is asked for is a cross compiler; there need not be another good one beside it.
    """
    return "auto" if choice == "host" else choice


def start(
    places: Places,
    matrix: Matrix,
    target: Target,
    options: BuildOptions,
    reporter: Reporter,
    store: Store | None = None,
) -> Run:
    """Check that the stores and the output folder can be written, and return the run.

    Args:
        places: Folders to read and write.
        matrix: The configuration.
        target: What is built.
        options: What the user chose.
        reporter: Told of every step.
        store: That of the places, if it is open; several runs may have one.

    Raises:
        StoreError: One of them cannot be written.
    """
    with storage_errors(places.cache):
        places.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=places.cache):
            pass
    store = store or Store(places.cache)
    with storage_errors(places.cache):
        store.remove_stale_work()
    logs = new_logs(places, target.id)
    reporter.info(f"logs: {logs}")
    return Run(places, matrix, target, options, store, reporter, logs)


def plan(root: Path, target: Target, options: BuildOptions) -> JobPlan:
    """Return how many compilations may run at once, and the memory for them.

    Args:
        root: The project's folder, with the costs measured for the target.
        target: What is built.
        options: What the user chose.

    Raises:
        MemoryCapError: The cap is not a size, or below what the largest file needs.
        UsageError: ``--jobs`` or ``MAX_JOBS`` is not a whole number above zero.
    """
    cap = choose_cap(options.memory, available_memory())
    costs = read_costs(_seed(root, target, options))
    output, peak = max(((name, cost.bytes) for name, cost in costs.items()), key=itemgetter(1), default=("", 0))
    worst = (
        WorstFile(output, peak) if output else WorstFile("by worst_peak in matrix.yaml", _worst_peak(target, options))
    )
    return plan_jobs(cap, worst, usable_cpus().count, job_limits(os.environ, options.jobs))


def _seed(root: Path, target: Target, options: BuildOptions) -> Path:
    return root / "measured" / _costs_name(target, options)


def _costs_name(target: Target, options: BuildOptions) -> str:
    return f"{target.id}-debug.tsv" if options.debug_symbols else f"{target.id}.tsv"


def _worst_peak(target: Target, options: BuildOptions) -> int:
    return target.peak(debug_symbols=options.debug_symbols)
