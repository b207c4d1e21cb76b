"""What both sides of the benchmark share: sources, compiler, environment, oneDNN, and where they work."""

from __future__ import annotations

import contextlib
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
from filelock import FileLock, Timeout

from buildbench.results import Machine, Subject
from cpuwheels.config.host import check_host
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.patch_series import load_series
from cpuwheels.config.paths import Paths
from cpuwheels.core.digests import make_key
from cpuwheels.core.entry_links import link_entries
from cpuwheels.core.errors import UsageError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.store import default_root
from cpuwheels.kernels.ccache.install import chosen_cache
from cpuwheels.kernels.memory.costs import read_costs
from cpuwheels.kernels.memory.limits import usable_cpus
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.inputs import compiler, gather, upstream
from cpuwheels.source.patched import prepare_source
from cpuwheels.source.request import request_source
from cpuwheels.toolchain.native_helpers import probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.core.console import Reporter
    from cpuwheels.kernels.request import KernelRequest

_SHARED = ("downloads", "onednn")

_OURS = "CPUWHEELS_"
"""Prefix of the settings in matrix.yaml that only our steering reads."""


@dataclass(frozen=True)
class Setting:
    """Everything that is prepared before anything is measured.

    Attributes:
        paths: The project, the benchmark's own stores and its own output folder.
        work: Folder of everything that the benchmark writes except its results.
        source: Upstream's sources in the store; read only.
        plain: Returns the same with the patches alone without which nothing can be built; read only.
        request: What both sides build.
        memgate: Measures each compilation and link, on both sides.
        ccache: The compiler cache; None where there is none for this machine.
        cpus: Jobs at once without steering.
        machine: For the results.
        subject: For the results.
        reporter: Told of every step.
    """

    paths: Paths
    work: Path
    source: Path
    plain: Callable[[], Path]
    request: KernelRequest
    memgate: Path
    ccache: Path | None
    cpus: int
    machine: Machine
    subject: Subject
    reporter: Reporter

    @property
    def logs(self) -> Path:
        """Folder of the commands' output."""
        return self.work / "logs"

    @property
    def fingerprint(self) -> str:
        """Names what we build; a folder left by a run with another key is useless."""
        return make_key(subject=self.subject)

    @property
    def unsteered_fingerprint(self) -> str:
        """Names what is built on upstream's side, whatever our steering."""
        return make_key(subject=self.subject.unsteered())

    def expected_cpu(self) -> float:
        """Return the CPU seconds of our cold build by the project's table; 0 if it has none for the target."""
        seed = self.paths.root / "measured" / f"{self.request.target.id}.tsv"
        return sum(cost.seconds for cost in read_costs(seed).values())


@contextlib.contextmanager
def prepared(root: Path, work: Path, target: str, source: str | None, reporter: Reporter) -> Iterator[Setting]:
    """Fetch and unpack everything, compile the launcher, and yield the setting; nobody else works there meanwhile.

    Args:
        root: The project's folder.
        work: Where the benchmark works; what is unpacked there serves the next benchmark too.
        target: Target id.
        source: vLLM version or path of a tree; the matrix's default if None.
        reporter: Told of every step.

    Raises:
        UsageError: Another benchmark is running there, or this is no Linux.
        CpuwheelsError: A stage's own error.
    """
    if platform.system() != "Linux":
        raise UsageError(
            f"the benchmark measures memory with Linux's /proc; this is {platform.system()}",
            where="this machine",
            next_step="run it on Linux",
        )
    paths = Paths(root=root, cache=work / "cache", dist=work / "dist")
    with storage_errors(work):
        work.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(work / "in-use.lock", timeout=0):
            yield _setting(paths, work, target, source, reporter)
    except Timeout as error:
        raise UsageError(
            "another benchmark is running in this folder", where=work, next_step="wait for it, or give another --work"
        ) from error


def _setting(paths: Paths, work: Path, target_id: str, source: str | None, reporter: Reporter) -> Setting:
    matrix = load_matrix(paths.root)
    target = matrix.buildable(target_id)
    check_host(target, paths.root)
    link_entries(default_root(), _SHARED, paths.cache)
    context = open_context(paths, matrix, target, BuildOptions(source=source), reporter)
    found = upstream(context, request_source(source, None, matrix))
    toolchain, native = compiler(context)
    inputs = gather(context, found, {})
    needed = load_series(paths.root).chosen(inputs.source.version, target.id, with_fixes=False, with_speed=False)
    cache = chosen_cache(context)  # unpacked before anything is measured
    request = inputs.request(context, toolchain)
    subject = Subject(
        target=target.id,
        version=inputs.source.version,
        source=inputs.source.digest,
        compiler=toolchain.description,
        torch=inputs.environment.torch_version,
        onednn=inputs.onednn.version if inputs.onednn else "none",
        built=_built(request),
        beside_source=request.key_beside_source(),
    )
    cpus = usable_cpus().count
    machine = Machine(
        processor=probe(native.isaprobe).model,
        cpus=cpus,
        memory=psutil.virtual_memory().total,
        system=f"{platform.system()} {platform.release()}",
    )
    ccache = cache.program if cache else None
    return Setting(
        paths=paths,
        work=work,
        source=inputs.source.folder,
        plain=lambda: prepare_source(context, inputs.source, needed).folder,
        request=request,
        memgate=native.memgate,
        ccache=ccache,
        cpus=cpus,
        machine=machine,
        subject=subject,
        reporter=reporter,
    )


def _built(request: KernelRequest) -> str:
    return make_key(
        source=request.source.folder.name,
        toolchain=request.toolchain.digest,
        environment=request.environment.key(),
        onednn=request.onednn and request.onednn.digest,
        cpuinfo=request.target.cpuinfo,
        options=upstream_options(request.target),
    )


def upstream_options(target: Target) -> dict[str, str]:
    """Return those of a target's settings that upstream's own CMake project reads: they decide what is built."""
    return {name: value for name, value in target.defines.items() if not name.startswith(_OURS)}
