"""What kernels are made from, fetched and made one after the other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.acl import NAME, choose_acl, get_acl
from cpuwheels.debian.mirrors import mirrors
from cpuwheels.errors import OneDnnError
from cpuwheels.kernels.request import KernelInputs, KernelRequest
from cpuwheels.model.series import load_series
from cpuwheels.onednn import choose_onednn, get_onednn
from cpuwheels.platforms import markers
from cpuwheels.prepare import prepare_source
from cpuwheels.source.pins import read_pins
from cpuwheels.source.result import with_epoch

if TYPE_CHECKING:
    from cpuwheels.acl import Acl
    from cpuwheels.environment import Environment
    from cpuwheels.model.matrix import Matrix, Target
    from cpuwheels.model.pins import AclPin, OneDnnPin
    from cpuwheels.native import NativeTools
    from cpuwheels.onednn import OneDnn
    from cpuwheels.prepare import PreparedSource
    from cpuwheels.run import Run
    from cpuwheels.source.pins import SourcePins
    from cpuwheels.source.request import SourceRequest
    from cpuwheels.source.result import Source
    from cpuwheels.toolchain.result import Toolchain


@dataclass(frozen=True)
class Upstream:
    """The source, and what it asks for; see the stages' own results."""

    source: Source
    prepared: PreparedSource
    torch: str
    """Version that it pins."""
    onednn: tuple[str, OneDnnPin] | None
    acl: tuple[str, AclPin] | None


@dataclass(frozen=True)
class Inputs:
    """What kernels are made from, but for the compiler; see the stages' own results."""

    source: Source
    prepared: PreparedSource
    environment: Environment
    onednn: OneDnn | None
    acl: Acl | None

    def kernels(self, this: Run) -> KernelInputs:
        """Return what names the kernels."""
        return KernelInputs(
            root=this.places.root, target=this.target, source=self.prepared, environment=self.environment,
            onednn=self.onednn, acl=self.acl, debug_symbols=this.options.debug_symbols,
        )  # fmt: skip

    def request(self, this: Run, toolchain: Toolchain) -> KernelRequest:
        """Return the request for the kernels."""
        return KernelRequest(**vars(self.kernels(this)), toolchain=toolchain)


def upstream(this: Run, request: SourceRequest) -> Upstream:
    """Return the source with our patches, and what it pins.

    Raises:
        CpuwheelsError: A stage's own error.
    """
    with this.reporter.stage("source", "vLLM's sources, and our patches"):
        source = with_epoch(request.get(this.store, this.reporter), os.environ)
        this.reporter.info(f"vLLM {source.version} ({source.origin}; version from {source.version_from})")
        root = this.places.root
        patches = [patch for patch in load_series(root).patches if patch.is_for(source.version, this.target.id)]
        prepared = prepare_source(source, patches, root / "patches", this.store, this.reporter)
        pins = read_pins(prepared.folder, markers(this.target, this.matrix.python[0]))
        this.check_torch(pins.torch)
        return Upstream(
            source, prepared, pins.torch,
            _chosen_onednn(this.matrix, pins, this.target), choose_acl(pins.acl, this.matrix.acl, this.target.machine),
        )  # fmt: skip


def compiler(this: Run) -> tuple[Toolchain, NativeTools]:
    """Return the target's compiler, and the helpers that run on this machine.

    Raises:
        CpuwheelsError: The stage's own error.
    """
    with this.reporter.stage("toolchain", f"a compiler that passes the gate of {this.target.id}, and its sysroot"):
        toolchain = this.toolchain()
        return toolchain, this.native(toolchain)


def gather(this: Run, found: Upstream) -> Inputs:
    """Return what a source's kernels are made from, fetching and making what the store does not have.

    Raises:
        CpuwheelsError: A stage's own error.
    """
    store, reporter, logs, locked = this.store, this.reporter, this.logs, this.options.locked
    with reporter.stage("environment", f"Python with torch {found.torch} and the locked build tools"):
        environment = this.environment(found.torch)
    onednn = acl = None
    if found.onednn is not None:
        with reporter.stage("onednn", f"oneDNN {found.onednn[0]}"):
            onednn = get_onednn(
                *found.onednn, mirrors(this.matrix.debian.mirrors, os.environ),
                store=store, reporter=reporter, logs=logs, locked=locked,
            )  # fmt: skip
    if found.acl is not None:
        with reporter.stage("acl", f"{NAME} {found.acl[0]}"):
            acl = get_acl(*found.acl, store=store, reporter=reporter, logs=logs, locked=locked)
    return Inputs(found.source, found.prepared, environment, onednn, acl)


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
