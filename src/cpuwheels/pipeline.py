"""The order of the stages; the only module that knows it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels import run
from cpuwheels.assembly import Assembly, assemble
from cpuwheels.chooser import beside_kernels, chooser_digest, chooser_key
from cpuwheels.inputs import compiler, gather, upstream
from cpuwheels.kernels.classes import keep_class
from cpuwheels.kernels.made_from import made_from
from cpuwheels.kernels.result import DEBUG
from cpuwheels.kernels.stage import get_kernels
from cpuwheels.native import features_here, probe
from cpuwheels.platforms import check_debug_symbols, check_host
from cpuwheels.precompiled.binaries import precompiled_binaries
from cpuwheels.precompiled.donor import check_request, find_donor
from cpuwheels.record import compiled_record, compiler_note, precompiled_record, provenance
from cpuwheels.report import write_report
from cpuwheels.source.request import request_source
from cpuwheels.storage import storage_errors
from cpuwheels.toolchain.select import check_choice
from cpuwheels.wheel.audited import AuditPolicy
from cpuwheels.wheel.instructions import Binutils
from cpuwheels.wheel.limits import limits_of

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config import Places
    from cpuwheels.console import Reporter
    from cpuwheels.finished import Finished
    from cpuwheels.inputs import Inputs
    from cpuwheels.kernels.result import Kernels
    from cpuwheels.memory import JobPlan
    from cpuwheels.model.matrix import Matrix, Target
    from cpuwheels.options import BuildOptions
    from cpuwheels.run import Run
    from cpuwheels.source.request import SourceRequest
    from cpuwheels.store import Store
    from cpuwheels.toolchain.result import Toolchain


def build(
    places: Places,
    matrix: Matrix,
    name: str,
    options: BuildOptions,
    reporter: Reporter,
    *,
    check: bool = True,
    store: Store | None = None,
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
        store: That of the places, if it is open; several builds may have one.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    check_host(target, places.root)
    if options.debug_symbols:
        check_debug_symbols(target)
    if options.kernels_from:
        check_request(options)
    else:
        check_choice(target, options.toolchain, places.root, os.environ)
    plan = None if options.kernels_from else run.plan(places.root, target, options)
    request = request_source(
        options.source, options.sha256, matrix, default=matrix.source_of(target), clone=options.repo,
        locked=options.locked,
    )  # fmt: skip
    this = run.start(places, matrix, target, options, reporter, store)
    assembly = _compiled(this, request, plan) if plan else _precompiled(this, request, str(options.kernels_from))
    return assemble(this, assembly, check=check)


def _compiled(this: Run, request: SourceRequest, plan: JobPlan) -> Assembly:
    """Return a wheel's parts with kernels from the store, or compiled now."""
    target, root = this.target, this.places.root
    found = upstream(this, request)
    toolchain, native = compiler(this)
    inputs = gather(this, found)
    chooser = chooser_key(target, toolchain, root) if target.chooser else None
    wanted = inputs.request(this, toolchain)
    with this.reporter.stage("kernels", f"upstream's extension modules; {plan.jobs} jobs at once ({plan.reason})"):
        kernels = get_kernels(
            wanted, cap=this.cap(plan, native.memgate), cache=this.compiler_cache,
            store=this.store, reporter=this.reporter, logs=this.logs,
        )  # fmt: skip
    keep_class(this.store, target.id, inputs.source.folder, kernels)
    title = f"vLLM {inputs.source.version} for {target.id}: kernels {kernels.key}"

    def write_beside(folder: Path) -> None:
        with storage_errors(folder):
            if kernels.debug_folder:
                shutil.copytree(kernels.debug_folder, folder / DEBUG)
            write_report(folder, kernels, title)

    return Assembly(
        inputs=inputs,
        note=provenance(target.id, inputs.source, inputs.prepared) | compiler_note(
            toolchain=toolchain, environment=inputs.environment, onednn=inputs.onednn, acl=inputs.acl,
            kernels=kernels.key, chooser=chooser,
        ),
        made_from=made_from(wanted, kernels, chooser_digest(target, root)),
        kernels=kernels.folder,
        beside=beside_kernels(target, toolchain, root=root, store=this.store, logs=this.logs),
        policy=_audit_policy(target, inputs, toolchain, kernels),
        audited=None,
        features=probe(native.isaprobe).features,
        write_beside=write_beside,
        record=compiled_record(toolchain, kernels, plan),
    )  # fmt: skip


def _precompiled(this: Run, request: SourceRequest, place: str) -> Assembly:
    """Return a wheel's parts with the kernels of another wheel; nothing is compiled."""
    target = this.target
    inputs = gather(this, upstream(this, request))
    with this.reporter.stage("kernels", f"of a wheel from {place}, if they are those of this source"):
        donor = find_donor(
            place, inputs.kernels(this), chooser_digest(target, this.places.root),
            store=this.store, reporter=this.reporter,
        )  # fmt: skip
        folder, audited = precompiled_binaries(donor, this.store)
    return Assembly(
        inputs=inputs,
        note=provenance(target.id, inputs.source, inputs.prepared) | donor.kernel_note(),
        made_from=donor.made_from,
        kernels=folder,
        beside={},
        policy=_policy(target, inputs),
        audited=audited,
        features=features_here(this.store),
        write_beside=lambda _: None,
        record=precompiled_record(donor.origin, donor.wheel.name, donor.sha256),
    )  # fmt: skip


def _audit_policy(target: Target, inputs: Inputs, toolchain: Toolchain, kernels: Kernels) -> AuditPolicy:
    system = toolchain.library_folders  # without any, those of the machine itself
    environment = inputs.environment
    return replace(
        _policy(target, inputs),
        library_folders=(*system, kernels.libraries_folder) if system else (),
        digests=(environment.torch_version, environment.torch_digest, toolchain.digest, kernels.key),
        limits=limits_of(target, inputs.acl),
        binutils=Binutils.of(toolchain),
    )


def _policy(target: Target, inputs: Inputs) -> AuditPolicy:
    """Return what a wheel is held against whose binaries were audited before."""
    return AuditPolicy(
        floor=target.floor, machine=target.machine, excluded=target.excluded_libraries,
        torch_libraries=inputs.environment.torch_folder / "lib", library_folders=(), digests=(), system=target.system,
    )  # fmt: skip
