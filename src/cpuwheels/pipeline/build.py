"""The order of the stages; the only module that knows it."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cpuwheels.audit.binutils import Binutils
from cpuwheels.audit.isa_limits import limits_of
from cpuwheels.audit.policy import AuditPolicy
from cpuwheels.config.host import check_debug_symbols, check_host
from cpuwheels.core.digests import tree_digest
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.usage import counted
from cpuwheels.kernels.build import get_kernels
from cpuwheels.kernels.ccache.install import chosen_cache
from cpuwheels.kernels.fingerprint import keep_fingerprint
from cpuwheels.kernels.isa_dispatch import beside_kernels, chooser_digest, chooser_key
from cpuwheels.kernels.manifest import kernel_manifest
from cpuwheels.kernels.memory.plan import memory_cap
from cpuwheels.kernels.memory.plan import plan as plan_jobs
from cpuwheels.kernels.result import DEBUG
from cpuwheels.kernels.tcmalloc import FILE as TCMALLOC
from cpuwheels.kernels.tcmalloc import get_tcmalloc, tcmalloc_digest
from cpuwheels.pipeline.assemble import Assembly, assemble
from cpuwheels.pipeline.build_record import compiled_record, precompiled_record
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.default_source import with_default_source
from cpuwheels.pipeline.dependencies import Used, dependencies
from cpuwheels.pipeline.inputs import compiler, gather, upstream
from cpuwheels.pipeline.inventory import inventory, packing_tools
from cpuwheels.pipeline.kernel_facts import kernel_facts
from cpuwheels.pipeline.locked_run import watched_requests
from cpuwheels.pipeline.provenance import provenance
from cpuwheels.pipeline.reuse.binaries import precompiled_binaries
from cpuwheels.pipeline.reuse.components import donated_components
from cpuwheels.pipeline.reuse.donor import check_request, find_donor
from cpuwheels.source.request import wanted_source
from cpuwheels.toolchain.native_helpers import features_here, probe
from cpuwheels.toolchain.select import check_choice
from cpuwheels.wheel.components import get_components

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.kernels.memory.limits import JobPlan
    from cpuwheels.kernels.result import Kernels
    from cpuwheels.pipeline.built_wheel import BuiltWheel
    from cpuwheels.pipeline.inputs import Inputs
    from cpuwheels.pipeline.provenance import KernelFacts, Provenance
    from cpuwheels.source.request import SourceRequest
    from cpuwheels.toolchain.result import Toolchain

_BEGIN = ("release", "source", "toolchain", "environment", "onednn", "kernels")
_ENDS = ("wheel", "install check")
STAGES = (*_BEGIN, *_ENDS)
"""Stages of a build in their order, as a terminal lists them; some builds have not all of them."""


def build(
    paths: Paths,
    matrix: Matrix,
    name: str,
    options: BuildOptions,
    reporter: Reporter,
    *,
    check: bool = True,
    store: Store | None = None,
) -> BuiltWheel:
    """Build the wheel of one target and put it into the output folder.

    What can be checked without work (target, machine, memory, source request) is checked first.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        options: What the user chose.
        reporter: Told of every step.
        check: Whether the wheel is installed and its libraries are loaded; if not, a wheel that cannot be loaded is no
            error.
        store: The store of the paths, if it is open; several builds may share it.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    with counted() as usage:
        built = _build(paths, matrix, name, options, reporter, check=check, store=store)
        if cost := usage.as_sentence():
            reporter.info(cost)
        return built


def _build(
    paths: Paths,
    matrix: Matrix,
    name: str,
    options: BuildOptions,
    reporter: Reporter,
    *,
    check: bool,
    store: Store | None,
) -> BuiltWheel:
    with assembled(paths, matrix, name, options, reporter, store=store) as (context, assembly):
        return assemble(context, assembly, check=check)


@contextmanager
def assembled(
    paths: Paths,
    matrix: Matrix,
    name: str,
    options: BuildOptions,
    reporter: Reporter,
    *,
    ends: tuple[str, ...] = _ENDS,
    store: Store | None = None,
) -> Iterator[tuple[BuildContext, Assembly]]:
    """Yield the run and what its wheel is packed from: kernels that were compiled, or another wheel's.

    ``ends`` names the stages after the kernels, which a terminal lists; other arguments as `build`.

    Raises:
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    check_host(target, paths.root)
    if options.debug_symbols:
        check_debug_symbols(target)
    if options.kernels_from:
        check_request(options)
    else:
        check_choice(target, options.toolchain, paths.root, os.environ)
    plan = None if options.kernels_from else plan_jobs(paths.root, target, options)
    wanted_source(matrix, target, options)
    reporter.expect(each for each in (*_BEGIN, *ends) if each != "onednn" or target.onednn)
    context, known = with_default_source(open_context(paths, matrix, target, options, reporter, store))
    request = wanted_source(matrix, target, context.options)
    context = replace(context, store=context.store.trusting(request.trust))
    with watched_requests(context, request):
        if plan:
            yield context, _compiled(context, request, known, plan)
        else:
            yield context, _precompiled(context, request, known, str(options.kernels_from))


def _compiled(
    context: BuildContext, request: SourceRequest, known: Mapping[str, Environment], plan: JobPlan
) -> Assembly:
    """Return a wheel's parts with kernels from the store, or compiled now."""
    target, root = context.target, context.root
    found = upstream(context, request)
    toolchain, native = compiler(context)
    inputs = gather(context, found, known)
    chooser = chooser_key(target, toolchain, root) if target.chooser else None
    wanted = inputs.request(context, toolchain)
    with context.reporter.stage("kernels", f"upstream's extension modules; {plan.jobs} jobs at once ({plan.reason})"):
        cap, cache = memory_cap(context, plan, native.memgate), partial(chosen_cache, context)
        kernels = get_kernels(context, wanted, cap=cap, cache=cache)
        tcmalloc = get_tcmalloc(context, wanted, cap=cap, cache=cache)
    keep_fingerprint(context.store, target.id, inputs.source.folder, kernels)
    title = f"vLLM {inputs.source.version} for {target.id}: kernels {kernels.key}"

    beside = beside_kernels(context, toolchain) | ({TCMALLOC: tcmalloc.file} if tcmalloc else {})
    modules = [*kernels.folder.glob("*/**/*.so"), *beside.values()]
    components = get_components(context, toolchain, modules, onednn=inputs.onednn, acl=inputs.acl, tcmalloc=tcmalloc)

    def write_beside(folder: Path) -> None:
        from cpuwheels.pipeline.report.write import write_trace  # noqa: PLC0415  (as a new wheel in `assemble`)

        with storage_errors(folder):
            if kernels.debug_folder:
                shutil.copytree(kernels.debug_folder, folder / DEBUG)
            write_trace(folder, kernels.jobs, title)

    compiled_with = kernel_facts(
        toolchain=toolchain,
        environment=inputs.environment,
        inventory=inventory(context, toolchain, inputs.environment),
        onednn=inputs.onednn,
        acl=inputs.acl,
        kernels=kernels.key,
        chooser=chooser,
        tcmalloc=tcmalloc,
        components=components.listed,
    )
    return Assembly(
        inputs=inputs,
        provenance=_provenance(context, inputs, compiled_with),
        manifest=kernel_manifest(
            wanted, kernels, chooser_digest(target, root), tcmalloc_digest(context.matrix, target)
        ),
        kernels=kernels.folder,
        beside=beside,
        components=components,
        policy=_audit_policy(target, inputs, toolchain, kernels),
        audited=None,
        features=probe(native.isaprobe).features,
        write_beside=write_beside,
        record=compiled_record(toolchain, kernels, plan),
        dependencies=partial(dependencies, context, Used(inputs, toolchain, tcmalloc, kernels=kernels)),
    )


def _precompiled(
    context: BuildContext, request: SourceRequest, known: Mapping[str, Environment], place: str
) -> Assembly:
    """Return a wheel's parts with the kernels of another wheel; nothing is compiled."""
    target = context.target
    inputs = gather(context, upstream(context, request), known)
    with context.reporter.stage("kernels", f"of a wheel from {place}, if they are those of this source"):
        donor = find_donor(context, place, inputs.kernels(context), chooser_digest(target, context.root))
        folder, audited = precompiled_binaries(donor, context.store)
    return Assembly(
        inputs=inputs,
        provenance=_provenance(context, inputs, donor.note),
        manifest=donor.manifest,
        kernels=folder,
        beside={},
        components=donated_components(donor, context.store),
        policy=_policy(target, inputs),
        audited=audited,
        features=features_here(context.store),
        write_beside=lambda _: None,
        record=precompiled_record(donor.origin, donor.wheel.name, donor.sha256),
        dependencies=partial(dependencies, context, Used(inputs, donor=donor)),
    )


def _provenance(context: BuildContext, inputs: Inputs, kernels: KernelFacts) -> Provenance:
    return provenance(
        context.target.id,
        inputs.source,
        inputs.prepared,
        kernels,
        packing_tools=packing_tools(inputs.environment),
        upstream_kernels=context.options.upstream_kernels,
        upstream_speed=context.options.upstream_speed,
    )


def _audit_policy(target: Target, inputs: Inputs, toolchain: Toolchain, kernels: Kernels) -> AuditPolicy:
    system = toolchain.library_folders  # without any, those of the machine itself
    environment = inputs.environment
    return replace(
        _policy(target, inputs),
        library_folders=(*system, kernels.libraries_folder) if system else (),
        digests=(
            environment.torch_version,
            environment.torch_digest,
            toolchain.digest,
            tree_digest(kernels.libraries_folder),
        ),
        limits=limits_of(target, inputs.acl, whole=inputs.source.released),
        binutils=Binutils.of(toolchain),
    )


def _policy(target: Target, inputs: Inputs) -> AuditPolicy:
    """Return what a wheel is checked against whose binaries were audited before."""
    return AuditPolicy(
        floor=target.floor,
        machine=target.machine,
        excluded=target.excluded_libraries,
        torch_libraries=inputs.environment.torch_folder / "lib",
        library_folders=(),
        digests=(),
        system=target.system,
    )
