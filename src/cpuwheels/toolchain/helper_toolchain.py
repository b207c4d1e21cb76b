"""The native helpers of a run, compiled with a toolchain whose programs run on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.config.host import is_foreign, own_target, this_machine
from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain.host_compilers import helpers_choice
from cpuwheels.toolchain.native_helpers import native_tools
from cpuwheels.toolchain.select import resolve_toolchain

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.toolchain.native_helpers import NativeTools
    from cpuwheels.toolchain.result import Toolchain


def native_helpers(context: BuildContext, toolchain: Toolchain | None = None) -> NativeTools:
    """Return our native helpers, which run on this machine.

    They are compiled with the target's toolchain, or where that makes programs for another kind of machine, with
    the toolchain of this machine's own target.

    Args:
        context: The run.
        toolchain: The target's, if it is available.

    Raises:
        ToolchainError: No target of the matrix is of this machine's kind, or they do not compile.
    """
    if is_foreign(context.target):
        toolchain = _own_toolchain(context)
    elif toolchain is None:
        toolchain = resolve_toolchain(context)
    return native_tools(context, toolchain.cc, (*toolchain.compile_flags, *toolchain.link_flags), toolchain.digest)


def _own_toolchain(context: BuildContext) -> Toolchain:
    own = own_target(context.matrix)
    if own is None:
        target = context.target
        raise ToolchainError(
            f"nothing compiles the helpers that run on this machine ({' '.join(this_machine())})",
            where="matrix.yaml: targets",
            next_step=f"add a target of this machine's kind, or build {target.id} on {target.system} {target.machine}",
        )
    context.reporter.info(f"helpers that run on this machine are compiled with the toolchain of {own.id}")
    return resolve_toolchain(context.for_target(own, helpers_choice(context.options.toolchain)))
