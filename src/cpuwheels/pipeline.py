"""The order of the stages; the only module that knows it."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpuwheels import publish, run
from cpuwheels.acl import NAME, choose_acl, get_acl
from cpuwheels.benches import install_bench
from cpuwheels.chooser import beside_kernels, chooser_key
from cpuwheels.debian.mirrors import mirrors
from cpuwheels.errors import OneDnnError
from cpuwheels.finished import RECORD, find_finished, read_finished, wheel_key
from cpuwheels.install_check import check_install
from cpuwheels.kernels.classes import keep_class
from cpuwheels.kernels.request import KernelRequest
from cpuwheels.kernels.result import DEBUG
from cpuwheels.kernels.stage import get_kernels
from cpuwheels.machine.chosen import require_chosen
from cpuwheels.machine.cpus import Cpu
from cpuwheels.model.series import load_series
from cpuwheels.onednn import choose_onednn, get_onednn
from cpuwheels.platforms import check_debug_symbols, check_host, markers
from cpuwheels.prepare import prepare_source
from cpuwheels.record import provenance, write_record
from cpuwheels.report import write_report
from cpuwheels.source.pins import read_pins
from cpuwheels.source.request import request_source
from cpuwheels.source.result import with_epoch
from cpuwheels.storage import storage_errors
from cpuwheels.toolchain.select import check_choice
from cpuwheels.wheel.audited import AuditPolicy
from cpuwheels.wheel.build import build_wheel
from cpuwheels.wheel.instructions import Binutils
from cpuwheels.wheel.limits import limits_of
from cpuwheels.wheel.metadata import upstream_package
from cpuwheels.wheel.overlay import write_overlay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.acl import Acl
    from cpuwheels.benches import InstallBench
    from cpuwheels.config import Places
    from cpuwheels.console import Reporter
    from cpuwheels.environment import Environment
    from cpuwheels.finished import Finished
    from cpuwheels.kernels.result import Kernels
    from cpuwheels.memory import JobPlan
    from cpuwheels.model.matrix import Matrix, Target
    from cpuwheels.model.pins import OneDnnPin
    from cpuwheels.native import NativeTools
    from cpuwheels.onednn import OneDnn
    from cpuwheels.options import BuildOptions
    from cpuwheels.prepare import PreparedSource
    from cpuwheels.run import Run
    from cpuwheels.source.pins import SourcePins
    from cpuwheels.source.request import SourceRequest
    from cpuwheels.source.result import Source
    from cpuwheels.toolchain.result import Toolchain
    from cpuwheels.wheel.build import BuiltWheel


@dataclass(frozen=True)
class Inputs:
    """What the kernels are made from; see the stages' own results."""

    source: Source
    prepared: PreparedSource
    toolchain: Toolchain
    native: NativeTools
    environment: Environment
    onednn: OneDnn | None
    acl: Acl | None


def build(
    places: Places, matrix: Matrix, name: str, options: BuildOptions, reporter: Reporter, *, check: bool = True
) -> Finished:
    """Build the wheel of one target and put it into the output folder.

    What can be judged without work (target, machine, memory, source request) is judged first.

    Args:
        places: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        options: What the user chose.
        reporter: Told of every step.
        check: Whether the wheel is installed and its libraries are loaded; if not, one that cannot be loaded is a
            result like any other.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    check_host(target, places.root)
    if options.debug_symbols:
        check_debug_symbols(target)
    check_choice(target, options.toolchain, places.root, os.environ)
    plan = run.plan(places.root, target, options)
    request = request_source(
        options.source, options.sha256, matrix, default=matrix.source_of(target), clone=options.repo,
        locked=options.locked,
    )  # fmt: skip
    this = run.start(places, matrix, target, options, reporter)
    inputs = gather(this, request)
    chooser = chooser_key(target, inputs.toolchain, places.root) if target.chooser else None
    with reporter.stage("kernels", f"upstream's extension modules; {plan.jobs} jobs at once ({plan.reason})"):
        kernels = get_kernels(
            KernelRequest(
                root=places.root, target=target, source=inputs.prepared, toolchain=inputs.toolchain,
                environment=inputs.environment, onednn=inputs.onednn, acl=inputs.acl,
                debug_symbols=options.debug_symbols,
            ),
            cap=this.cap(plan, inputs.native.memgate), cache=this.compiler_cache,
            store=this.store, reporter=reporter, logs=this.logs,
        )  # fmt: skip
    keep_class(this.store, target.id, inputs.source.folder, kernels)
    version = inputs.source.version
    note = provenance(
        target=target.id, source=inputs.source, prepared=inputs.prepared, toolchain=inputs.toolchain,
        environment=inputs.environment, onednn=inputs.onednn, acl=inputs.acl, kernels=kernels, chooser=chooser,
    )  # fmt: skip
    key = wheel_key(note, target, this.lock(run.TOOLS_LOCK)) + " not tried" * (not check)
    output = places.output(target.id, version)
    with this.store.lock("dist", f"{name}-{version}"):
        if finished := find_finished(output, key):
            reporter.info("this very wheel was built and checked before; nothing to do")
        else:
            with (
                this.store.scratch("wheel") as work,
                publish.staging(places, name, version) as staged,
                _bench(this, inputs, work) if check else nullcontext() as bench,
            ):
                _assemble(this, inputs, kernels, plan, note, key, work, staged, bench, check=check)
                publish.publish(staged, output)
            finished = read_finished(output)
        return finished


def gather(this: Run, request: SourceRequest) -> Inputs:
    """Return what the kernels are made from, fetching and making what the store does not have.

    Raises:
        CpuwheelsError: A stage's own error.
    """
    store, reporter, logs, root = this.store, this.reporter, this.logs, this.places.root
    with reporter.stage("source", "vLLM's sources, and our patches"):
        source = with_epoch(request.get(store, reporter), os.environ)
        reporter.info(f"vLLM {source.version} ({source.origin}; version from {source.version_from})")
        patches = [patch for patch in load_series(root).patches if patch.is_for(source.version, this.target.id)]
        prepared = prepare_source(source, patches, root / "patches", store, reporter)
        pins = read_pins(prepared.folder, markers(this.target, this.matrix.python[0]))
        this.check_torch(pins.torch)
        chosen = _chosen_onednn(this.matrix, pins, this.target)
        asked = choose_acl(pins.acl, this.matrix.acl, this.target.machine)
    with reporter.stage("toolchain", f"a compiler that passes the gate of {this.target.id}, and its sysroot"):
        toolchain = this.toolchain()
        native = this.native(toolchain)
    with reporter.stage("environment", f"Python with torch {pins.torch} and the locked build tools"):
        environment = this.environment(pins.torch)
    onednn = None
    if chosen is not None:
        with reporter.stage("onednn", f"oneDNN {chosen[0]}"):
            onednn = get_onednn(
                *chosen, mirrors(this.matrix.debian.mirrors, os.environ),
                store=store, reporter=reporter, logs=logs, locked=this.options.locked,
            )  # fmt: skip
    acl = None
    if asked is not None:
        with reporter.stage("acl", f"{NAME} {asked[0]}"):
            acl = get_acl(*asked, store=store, reporter=reporter, logs=logs, locked=this.options.locked)
    return Inputs(source, prepared, toolchain, native, environment, onednn, acl)


def _assemble(
    this: Run,
    inputs: Inputs,
    kernels: Kernels,
    plan: JobPlan,
    note: dict[str, Any],
    key: str,
    work: Path,
    staged: Path,
    bench: InstallBench | None,
    *,
    check: bool,
) -> None:
    target, source, reporter, logs = this.target, inputs.source, this.reporter, this.logs
    with reporter.stage("wheel", "upstream's package and metadata with these kernels, audited"):
        package = upstream_package(
            inputs.prepared.folder, version=source.version, environment=inputs.environment, store=this.store,
            work=work / "package", log=logs / "metadata.log",
        )  # fmt: skip
        overlay = write_overlay(
            work / "overlay", package.project,
            package=package.files, kernels=kernels.folder, licenses=package.licenses,
            beside=beside_kernels(target, inputs.toolchain, root=this.places.root, store=this.store, logs=logs),
        )  # fmt: skip
        built = build_wheel(
            overlay, package.project, python=inputs.environment.python, epoch=source.epoch, note=note,
            policy=_audit_policy(target, inputs, kernels), store=this.store, work=work / "wheel", out=staged,
            log=logs / "wheel.log", forbidden_paths=(this.places.cache, this.places.root),
        )  # fmt: skip
        for moved in built.moved_requirements:
            reporter.info(f"requirement '{moved.original}' is now '{moved.replacement}' in extra '{moved.extra}'")
    tried = _check(this, kernels, built, bench) if check else []
    with storage_errors(staged):
        if kernels.debug_folder:
            shutil.copytree(kernels.debug_folder, staged / DEBUG)
        write_report(staged, kernels, f"vLLM {source.version} for {target.id}: kernels {kernels.key}")
        write_record(
            staged / RECORD, inputs=note | {"wheel_key": key}, source=source, toolchain=inputs.toolchain,
            environment=inputs.environment, kernels=kernels, plan=plan, wheel=built.as_record(), tried=tried,
            timings=reporter.timings, announcements=reporter.announcements,
            beside=[path.name for path in staged.iterdir() if path != built.path],
        )  # fmt: skip


@contextmanager
def _bench(this: Run, inputs: Inputs, work: Path) -> Iterator[InstallBench | None]:
    bench = install_bench(this, inputs.environment, inputs.native.isaprobe, work)
    with bench.loader if bench else nullcontext():
        yield bench


def _audit_policy(target: Target, inputs: Inputs, kernels: Kernels) -> AuditPolicy:
    system = inputs.toolchain.library_folders  # without any, those of the machine itself
    return AuditPolicy(
        floor=target.floor, machine=target.machine, excluded=target.excluded_libraries,
        torch_libraries=inputs.environment.torch_folder / "lib",
        library_folders=(*system, kernels.libraries_folder) if system else (),
        digests=(
            inputs.environment.torch_version, inputs.environment.torch_digest, inputs.toolchain.digest, kernels.key,
        ),
        limits=limits_of(target, inputs.acl), binutils=Binutils.of(inputs.toolchain), system=target.system,
    )  # fmt: skip


def _check(this: Run, kernels: Kernels, built: BuiltWheel, bench: InstallBench | None) -> list[dict[str, object]]:
    """Return what was loaded on which CPU, for the record."""
    target, log = this.target, this.logs / "install-check.log"
    if bench is None:
        this.reporter.announce(f"the wheel was not installed: nothing here runs {target.system} {target.machine}")
        return []
    libraries = {library.name: library.needs for library in target.libraries}
    modules = [name for name in (*kernels.modules, target.chooser) if name and name not in libraries]
    with this.reporter.stage("install check", "the wheel in a fresh environment, each library in its own process"):
        check = check_install(
            built.path, loader=bench.loader, libraries=libraries,
            modules=modules, features=bench.features,
            manifest=built.path.with_name("operators.json"), log=log, announce=this.reporter.announce,
        )  # fmt: skip
    for library in check.libraries:
        this.reporter.info(f"{library.name}: {len(library.operators)} operators")
    cpus = bench.cpus or (Cpu("", bench.features, [bench.loader.python()]),)
    chosen = require_chosen(cpus, target, check.site, log)
    for cpu, name in chosen.items():
        this.reporter.info(f"{target.chooser} loads {name} on {cpu or 'this CPU'}")
    loaded = [library.name for library in check.libraries if not library.not_loaded]
    return [
        {
            "cpu": cpu.name or "this machine's",
            "emulated": bool(cpu.name),
            "libraries": [name for name in loaded if cpu.tries(name)],
            "chosen": chosen.get(cpu.name),
        }
        for cpu in cpus
    ]


def _chosen_onednn(matrix: Matrix, pins: SourcePins, target: Target) -> tuple[str, OneDnnPin] | None:
    if not target.onednn:
        return None
    chosen = choose_onednn(pins.onednn, matrix.onednn, target.machine)
    if chosen is None:
        raise OneDnnError(
            f"the source names no oneDNN for {target.machine}",
            where="cmake/cpu_extension.cmake of the source",
            next_step="if upstream's kernels do without it, set 'onednn: false' for the target in matrix.yaml",
        )
    return chosen
