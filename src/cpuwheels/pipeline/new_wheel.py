"""A new wheel: packed with upstream's package and metadata, audited, loaded, put into the output folder."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from cpuwheels.core.concurrency import begun
from cpuwheels.core.digests import file_digest, tree_files
from cpuwheels.core.text import counted
from cpuwheels.core.usage import current_usage
from cpuwheels.pipeline.build_record import write_record
from cpuwheels.pipeline.built_wheel import RECORD
from cpuwheels.pipeline.dist import put_in_place, staging
from cpuwheels.pipeline.package_wheel import Package, audit_binaries, package_wheel
from cpuwheels.pipeline.pylock import resolve, write_pylock
from cpuwheels.pipeline.recorded_build import LOCAL_TREE, BuildParameters
from cpuwheels.pipeline.report.write import PAGE, refresh_report
from cpuwheels.pipeline.slsa import SUFFIX, write_statement
from cpuwheels.pipeline.test_environment import install_environment
from cpuwheels.sandbox.prepare import get_sandbox
from cpuwheels.source.result import EPOCH_VARIABLE
from cpuwheels.verification.emulation.cpus import Cpu
from cpuwheels.verification.load.dispatch_check import require_chosen
from cpuwheels.verification.load.install_check import check_install
from cpuwheels.verification.onednn_isa import needed_variables
from cpuwheels.wheel.components import with_components
from cpuwheels.wheel.overlay import parts_of
from cpuwheels.wheel.upstream_package import upstream_package

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.pipeline.assemble import Assembly
    from cpuwheels.pipeline.package_wheel import PackagedWheel
    from cpuwheels.pipeline.test_environment import InstallEnvironment


def make_wheel(context: BuildContext, assembly: Assembly, key: str, *, check: bool) -> None:
    """Pack a wheel, and put it into the output folder with all that belongs to it.

    Args:
        context: The run, which has the lock of that folder.
        assembly: What the wheel is packed from.
        key: Names what it is made from, for the build record.
        check: Whether it is installed and its libraries are loaded; if not, a wheel that cannot be loaded is no error.

    Raises:
        CpuwheelsError: A step's own error.
    """
    name, version = context.target.id, assembly.inputs.source.version
    output = context.paths.output(name, version)
    with (
        context.store.scratch("wheel") as work,
        staging(context.paths, name, version) as staged,
        _installation(context, assembly, work) if check else nullcontext() as installation,
        ExitStack() as stack,
    ):
        current_usage().temporary(work)
        with context.reporter.stage("wheel", "upstream's package and metadata with these kernels, audited"):
            package = _package(context, assembly, work)
            # Most of it is waiting for the package index; the wheel is packed and tried meanwhile.
            resolved = stack.enter_context(begun(partial(resolve, context, package.parts.project))) if check else None
            built = _packed(context, package, work, staged)
        tried = _checked(context, assembly, built, installation) if check else []
        assembly.write_beside(staged)
        if check:
            write_pylock(context, built.path, resolved)
        write_record(
            staged / RECORD,
            provenance=assembly.provenance,
            wheel_key=key,
            source=assembly.inputs.source,
            environment=assembly.inputs.environment,
            made=assembly.record,
            sandbox=get_sandbox(context).mechanism,
            wheel=built.as_record(),
            tried=tried,
            timings=context.reporter.timings,
            announcements=context.reporter.announcements,
            beside=[
                PAGE,
                f"{built.path.name}{SUFFIX}",
                *(each.name for each in staged.iterdir() if each != built.path),
            ],
            parameters=_parameters(context, assembly, check=check),
            dependencies=assembly.dependencies(),
            byproducts=_byproducts(staged, built.path, context.logs),
            logs=os.path.relpath(context.logs, output),
            places=context.paths.names,
            usage=current_usage(),
        )
        write_statement(staged)
        refresh_report(staged)
        put_in_place(staged, output)


def audit_ahead(context: BuildContext, assembly: Assembly) -> str:
    """Audit the binaries for all wheels that will have them.

    Args:
        context: The run.
        assembly: What one of these wheels is packed from.

    Returns:
        The key under which the stores have the audit; empty if the machine's own libraries take part in it, for then
        it is kept for nobody.

    Raises:
        CpuwheelsError: A step's own error.
    """
    if not assembly.policy.library_folders:
        return ""
    with (
        context.store.scratch("audit") as work,
        context.reporter.stage("audit", "the kernels, for all wheels that will have them"),
    ):
        return audit_binaries(context, _package(context, assembly, work), work=work / "wheel")


def _parameters(context: BuildContext, assembly: Assembly, *, check: bool) -> BuildParameters:
    options, source = context.options, assembly.inputs.source
    named = source.version if source.released else source.commit or LOCAL_TREE
    taken = assembly.record.get("precompiled", {})
    return BuildParameters(
        target=context.target.id,
        source=named,
        toolchain=options.toolchain,
        locked=options.locked,
        allow_fallbacks=options.allow_fallbacks,
        debug_symbols=options.debug_symbols,
        upstream_kernels=options.upstream_kernels,
        upstream_speed=options.upstream_speed,
        kernels_from=taken.get("wheel", ""),
        source_date_epoch=source.epoch if os.environ.get(EPOCH_VARIABLE, "").strip() else None,
        checked=check,
    )


def _byproducts(staged: Path, wheel: Path, logs: Path) -> dict[str, str]:
    """Return the digests of what lies next to a wheel, and of the logs so far.

    The page is made from the record, and again after each test; the record's own digest is in what is made from it.
    """
    beside = {str(each.relative_to(staged)): each for each in tree_files(staged) if each != wheel}
    found = beside | {f"logs/{each.name}": each for each in logs.iterdir()}
    return {name: file_digest(each) for name, each in sorted(found.items()) if each.is_file() and not each.is_symlink()}


def _package(context: BuildContext, assembly: Assembly, work: Path) -> Package:
    inputs = assembly.inputs
    package = upstream_package(
        context,
        inputs.prepared.folder,
        version=inputs.source.version,
        environment=inputs.environment,
        work=work / "package",
    )
    licenses = work / "licenses"
    parts = parts_of(
        with_components(package.project, assembly.components, package.licenses, licenses),
        package=package.files,
        kernels=assembly.kernels,
        licenses=licenses,
        beside=assembly.beside,
    )
    return Package(
        parts=parts,
        environment=inputs.environment,
        epoch=inputs.source.epoch,
        provenance=assembly.provenance,
        manifest=assembly.manifest,
        policy=assembly.policy,
        audited=assembly.audited,
    )


def _packed(context: BuildContext, package: Package, work: Path, staged: Path) -> PackagedWheel:
    built = package_wheel(context, package, work=work / "wheel", out=staged)
    for moved in built.moved_requirements:
        context.reporter.info(f"requirement '{moved.original}' is now '{moved.replacement}' in extra '{moved.extra}'")
    return built


@contextmanager
def _installation(context: BuildContext, assembly: Assembly, work: Path) -> Iterator[InstallEnvironment | None]:
    installation = install_environment(context, assembly.inputs.environment, assembly.features, work)
    with installation.loader if installation else nullcontext():
        yield installation


def _checked(
    context: BuildContext, assembly: Assembly, built: PackagedWheel, installation: InstallEnvironment | None
) -> list[dict[str, object]]:
    """Return what was loaded on which CPU, for the record."""
    target, log = context.target, context.logs / "install-check.log"
    if installation is None:
        context.reporter.announce(f"the wheel was not installed: nothing here runs {target.system} {target.machine}")
        return []
    libraries = {library.name: library.needs for library in target.libraries}
    modules = [name for name in (*assembly.manifest.modules, target.chooser) if name and name not in libraries]
    with context.reporter.stage("install check", "the wheel in a fresh environment, each library in its own process"):
        check = check_install(
            built.path,
            loader=installation.loader,
            libraries=libraries,
            modules=modules,
            features=installation.features,
            manifest=built.path.with_name("operators.json"),
            log=log,
            announce=context.reporter.announce,
        )
    for library in check.libraries:
        context.reporter.info(f"{library.name}: {counted(len(library.operators), 'operator')}")
    own = Cpu(
        "", installation.features, [installation.loader.python()], environment=needed_variables(installation.onednn)
    )
    cpus = installation.cpus or (own,)
    chosen = require_chosen(cpus, target, check.site, log, confine=installation.confine)
    for cpu, name in chosen.items():
        context.reporter.info(f"{target.chooser} loads {name} on {cpu or 'this CPU'}")
    loaded = [library.name for library in check.libraries if not library.not_loaded]
    return [
        {
            "cpu": cpu.name or "this machine's",
            "emulated": bool(cpu.name),
            "libraries": [name for name in loaded if cpu.tries(name)],
            **({"onednn_limit": asdict(installation.onednn)} if installation.onednn and not cpu.name else {}),
            "chosen": chosen.get(cpu.name),
        }
        for cpu in cpus
    ]
