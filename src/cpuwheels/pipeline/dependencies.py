"""What a build really used of what it may download, each with its digest: for the build record and for provenance."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import LICENCES, load_lock
from cpuwheels.config.downloads import (
    TOOLS,
    ZIG,
    Download,
    debian_packages,
    debian_source,
    git_commit,
    git_uri,
    python_file,
    python_files,
    released_source,
    torch_wheel,
)
from cpuwheels.config.installation import find_checkout, own_version
from cpuwheels.config.package_urls import generic, pypi
from cpuwheels.config.paths import is_packaged, project_files
from cpuwheels.config.python_lock import locked_files
from cpuwheels.core.digests import code_digest, file_digest
from cpuwheels.environment.installed_files import installed_files
from cpuwheels.pipeline.inventory import compiler_locks, sysroot_locks, torch_locks
from cpuwheels.sandbox.prepare import get_sandbox, pinned_lock
from cpuwheels.source.clone import REPOSITORY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.kernels.result import Kernels
    from cpuwheels.kernels.tcmalloc import Tcmalloc
    from cpuwheels.pipeline.inputs import Inputs
    from cpuwheels.pipeline.reuse.donor import Donor
    from cpuwheels.source.acl import Acl
    from cpuwheels.source.onednn import OneDnn
    from cpuwheels.source.patches import AppliedPatch
    from cpuwheels.source.result import Source
    from cpuwheels.toolchain.result import Toolchain


@dataclass(frozen=True)
class Used:
    """What a wheel is made from; see the stages' own results.

    Attributes:
        inputs: The source, the environment, oneDNN and Arm Compute Library.
        toolchain: The compiler; None if nothing was compiled.
        tcmalloc: The allocator, if there is one.
        donor: The wheel whose kernels were taken, if nothing was compiled.
        kernels: The kernels in the store, compiled here or by another machine.
    """

    inputs: Inputs
    toolchain: Toolchain | None = None
    tcmalloc: Tcmalloc | None = None
    donor: Donor | None = None
    kernels: Kernels | None = None


def dependencies(context: BuildContext, used: Used) -> tuple[Download, ...]:
    """Return everything that a wheel was made from and with.

    What compiled kernels that are taken from another wheel is that wheel's to tell.

    Args:
        context: The run.
        used: What the stages returned.

    Raises:
        MatrixError: A lock cannot be read.
    """
    inputs = used.inputs
    found = [_source(context, inputs.source), *_patches(inputs.prepared.patches)]
    if used.donor:
        wheel, digest = used.donor.wheel.name, {"sha256": used.donor.sha256}
        found.append(Download(stage="kernels", name=wheel, digest=digest))
    if used.kernels and (origin := used.kernels.origin):
        name = f"kernels {used.kernels.key} of a shared store"
        found.append(Download(stage="kernels", name=name, digest={"sha256": origin.sha256}))
    if used.toolchain:
        found += [*_toolchain(context, used.toolchain), *_onednn(context, inputs.onednn), *_acl(context, inputs.acl)]
        if used.tcmalloc and context.matrix.gperftools:
            found.append(debian_source("tcmalloc", "gperftools", context.matrix.gperftools))
    found += [*_torch(context, inputs.environment), *_tools(context, inputs.environment), *_sandbox(context)]
    return (*found, *_own(context))


def _source(context: BuildContext, source: Source) -> Download:
    if source.released:
        return released_source(context.matrix, source.version, source.digest)
    named = context.options.repo or os.environ.get(REPOSITORY_VARIABLE)
    repositories = () if named else context.matrix.repositories
    if source.commit:
        uri, digest = git_uri(repositories, source.commit), {"gitCommit": source.commit}
        return Download(stage="source", name="vllm", version=source.version, uri=uri, digest=digest, key=source.digest)
    return Download(stage="source", name="vllm", version=source.version, key=source.digest)


def _patches(patches: Iterable[AppliedPatch]) -> Iterator[Download]:
    for patch in patches:
        if patch.state == "applied":
            yield Download(stage="patch", name=f"patches/{patch.file}", digest={"sha256": patch.sha256})


def _toolchain(context: BuildContext, toolchain: Toolchain) -> Iterator[Download]:
    target, root = context.target, context.root
    for name in compiler_locks(target, toolchain):
        yield from debian_packages(load_lock(root, name), "toolchain")
    if target.zig:  # of which the libraries to link with are also used where the compiler is Apple's
        yield from python_files(locked_files(root / "locks" / ZIG), "toolchain")
    if toolchain.kind == "host":
        yield Download(stage="toolchain", name=toolchain.family, version=toolchain.version, key=toolchain.digest)
    for name in sysroot_locks(target):
        yield from debian_packages(load_lock(root, name), "sysroot")
    if target.system == "Linux":
        yield from debian_packages(load_lock(root, LICENCES), "licences")


def _onednn(context: BuildContext, onednn: OneDnn | None) -> Iterator[Download]:
    if onednn is None:
        return
    pin = context.matrix.onednn.get(onednn.tag) or next(iter(context.matrix.onednn.values()))
    yield from (
        [debian_source("onednn", "oneDNN", source) for source in pin.alternates if source.sha256 == onednn.digest]
        if onednn.kind == "alternate"
        else [git_commit("onednn", "oneDNN", onednn.digest, pin)]
    )
    yield from _patches(onednn.patches)


def _acl(context: BuildContext, acl: Acl | None) -> Iterator[Download]:
    if acl is not None and acl.commit:
        pin = context.matrix.acl.get(acl.tag) or next(reversed(context.matrix.acl.values()))
        yield git_commit("acl", f"Arm Compute Library {acl.tag}", acl.commit, pin)


def _torch(context: BuildContext, environment: Environment) -> Iterator[Download]:
    torch, target = environment.torch_version, context.target
    if environment.torch_alternate:
        for name in torch_locks(context, environment):
            yield from debian_packages(load_lock(context.root, name), "torch")
        return
    pin = context.matrix.torch.get(torch.partition("+")[0])
    tag = f"cp{environment.python_version.replace('.', '')}"
    wheels = pin.wheels_for(target.machine) if pin else ()
    own = [wheel for wheel in wheels if wheel.python == tag]
    if pin and environment.torch_pinned and len(chosen := own or wheels) == 1:
        found = torch_wheel(torch, chosen[0].sha256, pin, target.system)
        yield found.model_copy(update={"key": environment.torch_digest})
    else:
        yield Download(stage="torch", name="torch", version=torch, key=environment.torch_digest)


def _tools(context: BuildContext, environment: Environment) -> Iterator[Download]:
    files = installed_files(environment.site_packages, locked_files(context.lock(TOOLS)))
    for package, file in files.items():
        name, _, number = package.partition(" ")
        if name == "torch":
            continue
        yield (
            python_file(file, "build-tools")
            if file
            else Download(stage="build-tools", name=name, version=number, uri=str(pypi(name, number)))
        )


def _sandbox(context: BuildContext) -> Iterator[Download]:
    program, lock = get_sandbox(context).mechanism.program, pinned_lock(context.matrix)
    if program and lock and program.is_relative_to(context.store.root):
        yield from debian_packages(load_lock(context.root, lock), "sandbox")


def _own(context: BuildContext) -> Iterator[Download]:
    """Yield this program, and the matrix, which may be another one.

    A commit is named only if the project's other files, such as locks and patches, are of it, too.
    """
    own = not is_packaged() and context.root.resolve() == project_files()
    checkout = find_checkout(project_files()) if own else None
    digest = {"gitCommit": checkout.commit} if checkout and not checkout.changed else {}
    number = own_version()
    yield Download(
        stage="cpuwheels",
        name="cpuwheels",
        version=number,
        uri=str(generic("cpuwheels", number)),
        digest=digest,
        key=code_digest(),
    )
    yield Download(stage="cpuwheels", name="matrix.yaml", digest={"sha256": file_digest(context.paths.matrix)})
