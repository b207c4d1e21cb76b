"""From kernels to a wheel in the output folder: the one that is there if its inputs are the same, else a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpuwheels.environment.build_env import TOOLS_LOCK
from cpuwheels.pipeline.built_wheel import find_built, read_built, wheel_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cpuwheels.audit.policy import Audited, AuditPolicy
    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.downloads import Download
    from cpuwheels.kernels.manifest import KernelManifest
    from cpuwheels.pipeline.built_wheel import BuiltWheel
    from cpuwheels.pipeline.inputs import Inputs
    from cpuwheels.pipeline.provenance import Provenance
    from cpuwheels.wheel.components import Components


@dataclass(frozen=True)
class Assembly:
    """What a wheel is packed from, and how.

    Attributes:
        inputs: The source and the build environment.
        provenance: What the wheel is made from.
        manifest: What its kernels are made from; written into the wheel.
        kernels: Folder with the kernels as they are in the wheel.
        beside: Name in the wheel → extension module that is not one of them.
        components: The libraries in the wheel and their licences.
        policy: What the binaries are audited against.
        audited: Key and result of an audit, if there was one; otherwise they are audited.
        features: What this machine's CPU has.
        write_beside: Writes the files that go next to the wheel into a folder.
        record: How the kernels were made, for the build record.
        dependencies: Finds out what was used of what a build may download, likewise.
    """

    inputs: Inputs
    provenance: Provenance
    manifest: KernelManifest
    kernels: Path
    beside: Mapping[str, Path]
    components: Components
    policy: AuditPolicy
    audited: tuple[str, Audited] | None
    features: frozenset[str]
    write_beside: Callable[[Path], None]
    record: Mapping[str, Any]
    dependencies: Callable[[], tuple[Download, ...]]


def assemble(context: BuildContext, assembly: Assembly, *, check: bool) -> BuiltWheel:
    """Return the wheel in the output folder: the existing one if its inputs are the same, else a new one.

    Args:
        context: The run.
        assembly: What the wheel is packed from.
        check: Whether it is installed and its libraries are loaded; if not, a wheel that cannot be loaded is no error.

    Raises:
        CpuwheelsError: A stage's own error.
    """
    name, version = context.target.id, assembly.inputs.source.version
    key = wheel_key(assembly.provenance, context.target, context.lock(TOOLS_LOCK))
    key = key if check else f"{key} not tested"
    output = context.paths.output(name, version)
    with context.store.lock("dist", f"{name}-{version}"):
        if existing := find_built(output, key, locked=context.options.locked):
            context.reporter.info("this wheel was built and checked before; nothing to do")
            return existing
        # Only here: what makes a wheel takes a fifth of a second to import.
        from cpuwheels.pipeline.new_wheel import make_wheel  # noqa: PLC0415

        make_wheel(context, assembly, key, check=check)
        return read_built(output)
