"""The order of the stages; the only module that knows it."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels import publish
from cpuwheels.environment import EnvironmentRequest, build_environment, runtime_environment
from cpuwheels.errors import OneDnnError, TorchError
from cpuwheels.install_check import InstallCheck, check_install
from cpuwheels.debian.mirrors import mirrors
from cpuwheels.kernels.request import KernelRequest
from cpuwheels.kernels.result import DEBUG, MODULES
from cpuwheels.kernels.stage import get_kernels
from cpuwheels.memory import available_memory, choose_cap, job_limits, plan_jobs, usable_cpus
from cpuwheels.model.series import load_series
from cpuwheels.native import native_tools, probe
from cpuwheels.onednn import get_onednn
from cpuwheels.platforms import check_host, markers
from cpuwheels.prepare import prepare_source
from cpuwheels.record import provenance, write_record
from cpuwheels.source.pins import read_pins
from cpuwheels.source.request import request_source
from cpuwheels.storage import remove_tree, storage_errors
from cpuwheels.store import Store
from cpuwheels.toolchain.select import resolve_toolchain
from cpuwheels.wheel.build import build_wheel
from cpuwheels.wheel.metadata import local_version, upstream_package
from cpuwheels.wheel.overlay import write_overlay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpuwheels.config import Places
    from cpuwheels.console import Reporter
    from cpuwheels.environment import Environment
    from cpuwheels.kernels.result import Kernels
    from cpuwheels.memory import JobPlan
    from cpuwheels.model.matrix import Matrix, OneDnnPin, Target, TorchPin
    from cpuwheels.native import NativeTools
    from cpuwheels.onednn import OneDnn
    from cpuwheels.options import BuildOptions
    from cpuwheels.prepare import PreparedSource
    from cpuwheels.source.pins import SourcePins
    from cpuwheels.source.result import Source
    from cpuwheels.toolchain.result import Toolchain
    from cpuwheels.wheel.build import BuiltWheel

TOOLS_LOCK = "build-tools.txt"


@dataclass(frozen=True)
class Outcome:
    """A finished build.

    Attributes:
        wheel: Its place in the output folder.
        built: What is known of the wheel.
        check: What its libraries register.
        kernels: What it was assembled from.
        record: The build record.
    """

    wheel: Path
    built: BuiltWheel
    check: InstallCheck
    kernels: Kernels
    record: Path


@dataclass(frozen=True)
class _Inputs:
    source: Source
    prepared: PreparedSource
    toolchain: Toolchain
    native: NativeTools
    environment: Environment
    onednn: OneDnn


def build(places: Places, matrix: Matrix, name: str, options: BuildOptions, reporter: Reporter) -> Outcome:
    """Build the wheel of one target and put it into the output folder.

    What can be judged without work (target, machine, memory, source request) is judged first.

    Args:
        places: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        options: What the user chose.
        reporter: Told of every step.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    check_host(target)
    plan = plan_build(target, options)
    request = request_source(options.source, options.sha256, matrix)
    store = Store(places.cache)
    with storage_errors(places.cache):
        places.cache.mkdir(parents=True, exist_ok=True)
    logs = publish.new_logs(places, target.id)
    reporter.info(f"logs: {logs}")

    with reporter.stage("source", "vLLM's sources, and our patches"):
        source = request.get(store, reporter)
        reporter.info(f"vLLM {source.version} ({source.origin}; version from {source.version_from})")
        patches = [patch for patch in load_series(places.root).patches if patch.is_for(source.version, name)]
        prepared = prepare_source(source, patches, places.root / "patches", store, reporter)
        pins = read_pins(prepared.folder, markers(target, matrix.python[0]))
        torch_pin, (tag, onednn_pin) = _torch_pin(matrix, pins), _onednn_pin(matrix, pins)
    with reporter.stage("toolchain", f"a compiler that passes the gate of {target.id}, and its sysroot"):
        toolchain = resolve_toolchain(
            target, choice=options.toolchain, root=places.root, debian=matrix.debian,
            store=store, reporter=reporter, logs=logs,
        )  # fmt: skip
        native = native_tools(
            places.root, toolchain.cc, (*toolchain.compile_flags, *toolchain.link_flags), toolchain.digest,
            store=store, logs=logs,
        )  # fmt: skip
    with reporter.stage("environment", f"Python with torch {pins.torch} and the locked build tools"):
        environment = build_environment(
            EnvironmentRequest(
                pins.torch, torch_pin, target, matrix.python, places.root / "locks" / TOOLS_LOCK, options.locked
            ),
            store, reporter, logs,
        )  # fmt: skip
        reporter.info(f"torch {environment.torch_version} from {environment.torch_from}")
    with reporter.stage("onednn", f"oneDNN {tag}"):
        onednn = get_onednn(
            tag, onednn_pin, mirrors(matrix.debian.mirrors, os.environ), store=store, reporter=reporter, logs=logs, locked=options.locked
        )
    inputs = _Inputs(source, prepared, toolchain, native, environment, onednn)
    with reporter.stage("kernels", f"upstream's extension modules; {plan.jobs} jobs at once ({plan.reason})"):
        kernels = get_kernels(
            KernelRequest(
                places.root, target, prepared, toolchain, environment, onednn, options.debug_symbols
            ),
            jobs=plan.jobs, memgate=native.memgate, store=store, reporter=reporter, logs=logs,
        )  # fmt: skip
    with _work_folder(store) as work, store.lock("dist", f"{name}-{source.version}"):
        return _assemble(places, target, inputs, kernels, plan, work, reporter, logs)


def plan_build(target: Target, options: BuildOptions) -> JobPlan:
    """Return how many compilations may run at once.

    Raises:
        MemoryCapError: The cap is not a size, or below what the largest file needs.
        UsageError: ``--jobs`` or ``MAX_JOBS`` is not a whole number above zero.
    """
    cap = choose_cap(options.memory, available_memory())
    cpus = usable_cpus().count
    return plan_jobs(cap.bytes, target.worst_peak, cpus, job_limits(os.environ, options.jobs), where=cap.where)


def _assemble(
    places: Places,
    target: Target,
    inputs: _Inputs,
    kernels: Kernels,
    plan: JobPlan,
    work: Path,
    reporter: Reporter,
    logs: Path,
) -> Outcome:
    source, environment = inputs.source, inputs.environment
    note = provenance(
        target=target.id, source=source, prepared=inputs.prepared, toolchain=inputs.toolchain,
        environment=environment, onednn=inputs.onednn, kernels=kernels,
    )  # fmt: skip
    staged = publish.staging(places, target.id, source.version)
    with reporter.stage("wheel", "upstream's package and metadata with these kernels, audited"):
        package = upstream_package(
            inputs.prepared.folder, version=source.version, python=environment.python,
            work=work / "package", log=logs / "metadata.log",
        )  # fmt: skip
        kernel_tree = _kernel_tree(kernels, work / "kernels")
        overlay = write_overlay(
            work / "overlay", package.project, package=package.package, kernels=kernel_tree, licenses=package.licenses
        )
        built = build_wheel(
            overlay, package.project, python=environment.python, epoch=source.epoch, note=note,
            floor=target.floor, machine=target.machine, excluded=target.excluded_libraries,
            library_folders=inputs.toolchain.library_folders, work=work / "wheel", out=staged,
            log=logs / "wheel.log",
        )  # fmt: skip
        for moved in built.moved_requirements:
            reporter.info(f"requirement '{moved.original}' is now '{moved.replacement}' in extra '{moved.extra}'")
    with reporter.stage("install check", "the wheel in a fresh environment, each library in its own process"):
        check = _check(target, built.path, inputs, kernels, staged, work, places, reporter, logs)
    if kernels.debug_folder:
        with storage_errors(staged):
            shutil.copytree(kernels.debug_folder, staged / DEBUG)
    write_record(
        staged / "record.json", inputs=note, source=source, toolchain=inputs.toolchain, environment=environment,
        kernels=kernels, plan=plan, wheel=built.as_record(), timings=reporter.timings,
        announcements=reporter.announcements,
    )  # fmt: skip
    output = places.output(target.id, source.version)
    finished = publish.publish(staged, output)
    return Outcome(finished, replace(built, path=finished), check, kernels, output / "record.json")


def _check(
    target: Target,
    wheel: Path,
    inputs: _Inputs,
    kernels: Kernels,
    staged: Path,
    work: Path,
    places: Places,
    reporter: Reporter,
    logs: Path,
) -> InstallCheck:
    names = {library.name: library.needs for library in target.libraries}
    python = runtime_environment(inputs.environment, work / "venv", places.root / "locks" / TOOLS_LOCK, logs)
    check = check_install(
        wheel, python=python, libraries=names, modules=[name for name in kernels.modules if name not in names],
        features=probe(inputs.native.isaprobe).features, manifest=staged / "operators.json",
        work=work / "check", log=logs / "install-check.log", announce=reporter.announce,
    )  # fmt: skip
    for library in check.libraries:
        reporter.info(f"{library.name}: {len(library.operators)} operators")
    return check


def _kernel_tree(kernels: Kernels, folder: Path) -> Path:
    """Lay out the modules alone, as they lie in the wheel."""
    with storage_errors(folder):
        shutil.copytree(kernels.folder / MODULES, folder / MODULES)
    return folder


def _torch_pin(matrix: Matrix, pins: SourcePins) -> TorchPin:
    if pins.torch not in matrix.torch:
        raise TorchError(
            f"the source pins torch {pins.torch}, which the matrix does not know",
            where="matrix.yaml: torch",
            next_step=f"add it there; known: {', '.join(matrix.torch)}",
        )
    return matrix.torch[pins.torch]


def _onednn_pin(matrix: Matrix, pins: SourcePins) -> tuple[str, OneDnnPin]:
    known = [(tag, matrix.onednn[tag]) for tag in pins.onednn if tag in matrix.onednn]
    if not known:
        raise OneDnnError(
            f"the source asks for oneDNN {' or '.join(pins.onednn) or '(none found)'}, which the matrix does not pin",
            where="matrix.yaml: onednn",
            next_step=f"add its commit there; known: {', '.join(matrix.onednn)}",
        )
    return known[0]


@contextmanager
def _work_folder(store: Store) -> Iterator[Path]:
    """Yield a folder for one run's intermediate files, on the stores' file system so that links work."""
    base = store.root / "work"
    with storage_errors(base):
        base.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="wheel-", dir=base))
    try:
        yield folder
    finally:
        remove_tree(folder)
