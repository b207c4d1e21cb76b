"""The inputs of kernels, fetched and made one after the other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.config.host import markers
from cpuwheels.config.patch_series import load_series
from cpuwheels.core.errors import OneDnnError
from cpuwheels.environment.torch_environment import check_torch, torch_environment
from cpuwheels.kernels.request import KernelInputs, KernelRequest
from cpuwheels.pipeline.locked_run import require_listed
from cpuwheels.sandbox.prepare import get_sandbox
from cpuwheels.source.acl import NAME, choose_acl, get_acl
from cpuwheels.source.onednn import choose_onednn, get_onednn, patch_onednn
from cpuwheels.source.patched import prepare_source
from cpuwheels.source.result import with_epoch
from cpuwheels.source.upstream_pins import read_pins
from cpuwheels.toolchain.helper_toolchain import native_helpers
from cpuwheels.toolchain.select import resolve_toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.pins import AclPin, OneDnnPin
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.source.acl import Acl
    from cpuwheels.source.onednn import OneDnn
    from cpuwheels.source.patched import PreparedSource
    from cpuwheels.source.request import SourceRequest
    from cpuwheels.source.result import Source
    from cpuwheels.source.upstream_pins import SourcePins
    from cpuwheels.toolchain.native_helpers import NativeTools
    from cpuwheels.toolchain.result import Toolchain


@dataclass(frozen=True)
class Upstream:
    """The source, and what it requires; see the stages' own results."""

    source: Source
    prepared: PreparedSource
    torch: str
    """Version that it pins."""
    onednn: tuple[str, OneDnnPin] | None
    acl: tuple[str, AclPin] | None


@dataclass(frozen=True)
class Inputs:
    """The inputs of kernels except the compiler; see the stages' own results."""

    source: Source
    prepared: PreparedSource
    environment: Environment
    onednn: OneDnn | None
    acl: Acl | None

    def kernels(self, context: BuildContext) -> KernelInputs:
        """Return what names the kernels."""
        return KernelInputs(
            root=context.root,
            target=context.target,
            source=self.prepared,
            environment=self.environment,
            onednn=self.onednn,
            acl=self.acl,
            debug_symbols=context.options.debug_symbols,
            sanitize=context.options.sanitize,
        )

    def request(self, context: BuildContext, toolchain: Toolchain) -> KernelRequest:
        """Return the request for the kernels."""
        return KernelRequest(**vars(self.kernels(context)), toolchain=toolchain)


def upstream(context: BuildContext, request: SourceRequest) -> Upstream:
    """Return the source with our patches, and what it pins.

    Raises:
        CpuwheelsError: A stage's own error.
    """
    with context.reporter.stage("source", "vLLM's sources, and our patches"):
        source = with_epoch(request.get(context.store, context.reporter), os.environ)
        context.reporter.info(f"vLLM {source.version} ({source.origin}; version from {source.version_from})")
        root, options = context.root, context.options
        series = load_series(root).chosen(
            source.version,
            context.target.id,
            with_fixes=not options.upstream_kernels,
            with_speed=not options.upstream_speed,
        )
        prepared = prepare_source(context, source, series)
        pins = read_pins(prepared.folder, markers(context.target, context.matrix.python[0]))
        check_torch(context, pins.torch)
        require_listed(context, pins, prepared.folder)
        return Upstream(
            source,
            prepared,
            pins.torch,
            _chosen_onednn(context.matrix, pins, context.target),
            choose_acl(pins.acl, context.matrix.acl, context.target.machine),
        )


def compiler(context: BuildContext) -> tuple[Toolchain, NativeTools]:
    """Return the target's compiler, and the helpers that run on this machine.

    Raises:
        CpuwheelsError: The stage's own error.
    """
    with context.reporter.stage(
        "toolchain", f"a compiler that meets the requirements of {context.target.id}, and its sysroot"
    ):
        toolchain = resolve_toolchain(context)
        return toolchain, native_helpers(context, toolchain)


def gather(context: BuildContext, found: Upstream, known: Mapping[str, Environment]) -> Inputs:
    """Return the inputs of a source's kernels; what the store does not have is fetched and made.

    Args:
        context: The run.
        found: The source.
        known: Environments that were looked up before, by their torch.

    Raises:
        CpuwheelsError: A stage's own error.
    """
    reporter = context.reporter
    with reporter.stage("environment", f"Python with torch {found.torch} and the locked build tools"):
        get_sandbox(context)  # where there is none, it is refused or announced before anything of upstream's runs
        environment = known.get(found.torch) or torch_environment(context, found.torch)
    onednn = acl = None
    if found.onednn is not None:
        with reporter.stage("onednn", f"oneDNN {found.onednn[0]}"):
            onednn = patch_onednn(context, get_onednn(context, *found.onednn), released=found.source.released)
    if found.acl is not None:
        with reporter.stage("acl", f"{NAME} {found.acl[0]}"):
            acl = get_acl(context, *found.acl)
    return Inputs(found.source, found.prepared, environment, onednn, acl)


def _chosen_onednn(matrix: Matrix, pins: SourcePins, target: Target) -> tuple[str, OneDnnPin] | None:
    if not target.onednn:
        return None
    chosen = choose_onednn(pins.onednn, matrix.onednn, target.machine)
    if chosen is None:
        raise OneDnnError(
            f"the source names no oneDNN for {target.machine}",
            where="cmake/cpu_extension.cmake of the source",
            next_step="if upstream's kernels do not need it, set 'onednn: false' for the target in matrix.yaml",
        )
    return chosen
