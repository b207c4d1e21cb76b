"""The facts of what kernels are compiled with, from the results of the stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.pipeline.provenance import (
    AclFacts,
    ComponentFacts,
    KernelFacts,
    OneDnnFacts,
    TcmallocFacts,
    ToolchainFacts,
    TorchFacts,
    patch_facts,
)
from cpuwheels.source.acl import NAME as ACL_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.kernels.tcmalloc import Tcmalloc
    from cpuwheels.pipeline.inventory import Inventory
    from cpuwheels.source.acl import Acl
    from cpuwheels.source.onednn import OneDnn
    from cpuwheels.toolchain.result import Toolchain
    from cpuwheels.wheel.components import Component


def kernel_facts(
    *,
    toolchain: Toolchain,
    environment: Environment,
    inventory: Inventory,
    onednn: OneDnn | None,
    acl: Acl | None,
    kernels: str,
    chooser: str | None = None,
    tcmalloc: Tcmalloc | None = None,
    components: Iterable[Component] = (),
) -> KernelFacts:
    """Return what kernels are compiled with.

    Args:
        toolchain: The compiler.
        environment: With torch.
        inventory: What compiler, sysroot and torch consist of, and the programs besides them.
        onednn: Linked into them, if at all.
        acl: Likewise.
        kernels: Their key.
        chooser: Key of the module that chooses among them, if there is one.
        tcmalloc: The allocator in the same wheel, if there is one.
        components: The libraries in that wheel.
    """
    return KernelFacts(
        toolchain=ToolchainFacts(
            version=f"{toolchain.family} {toolchain.version}",
            digest=toolchain.digest,
            packages=inventory.compiler,
            sysroot=inventory.sysroot,
        ),
        torch=TorchFacts(version=environment.torch_version, digest=environment.torch_digest, packages=inventory.torch),
        onednn=_onednn_facts(onednn),
        acl=None if acl is None else AclFacts(tag=acl.tag, version=acl.commit, kind=acl.kind),
        alternates=alternates(onednn, acl, environment),
        kernel_key=kernels,
        chooser_key=chooser,
        tcmalloc=_tcmalloc_facts(tcmalloc),
        components=tuple(ComponentFacts.model_validate(vars(each)) for each in components),
        tools=inventory.tools,
        tools_lock=inventory.tools_lock,
    )


def _onednn_facts(onednn: OneDnn | None) -> OneDnnFacts | None:
    if onednn is None:
        return None
    return OneDnnFacts(
        tag=onednn.tag,
        version=onednn.version,
        digest=onednn.digest,
        kind=onednn.kind,
        release=onednn.release,
        patches=patch_facts(onednn.patches),
    )


def _tcmalloc_facts(tcmalloc: Tcmalloc | None) -> TcmallocFacts | None:
    if tcmalloc is None:
        return None
    return TcmallocFacts(version=tcmalloc.version, digest=tcmalloc.digest, key=tcmalloc.key)


def alternates(onednn: OneDnn | None, acl: Acl | None, environment: Environment) -> tuple[str, ...]:
    """Return what was built with something else than the matrix's first choice, or without."""
    found = [f"torch {environment.torch_version} from {environment.torch_from}"] if environment.torch_alternate else []
    if onednn is not None and onednn.kind == "alternate":
        found.append(f"oneDNN {onednn.version} in place of {onednn.tag}")
    if acl is not None and acl.kind == "absent":
        found.append(f"no {ACL_NAME} in place of {acl.tag}")
    return tuple(found)
