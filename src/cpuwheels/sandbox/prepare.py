"""The sandbox of a run: bubblewrap unpacked without root, the best mechanism chosen, a lesser one announced."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.errors import DownloadError, SandboxError, ToolchainError
from cpuwheels.sandbox.confine import Sandbox
from cpuwheels.sandbox.detect import best_mechanism
from cpuwheels.toolchain.debian_compiler import unpacked_programs

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.sandbox.mechanism import Mechanism

KIND = "sandbox"
"""bubblewrap's kind in the store."""

REMEDY = (
    "let users make namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for bubblewrap), "
    "give a container CAP_SYS_ADMIN, or use Linux 6.2 or newer, whose Landlock needs no privilege; "
    "--allow-unsandboxed builds without"
)


def get_sandbox(context: BuildContext) -> Sandbox:
    """Return the sandbox for the steps of a run; anything but the best mechanism is announced once.

    Args:
        context: The run; its matrix names the lock with bubblewrap, which its store keeps.

    Raises:
        SandboxError: There is none, and the run may not do without.
    """
    mechanism = _mechanism(context)
    if mechanism.kind == "none":
        _refuse_unless_allowed(context, mechanism)
    note = _note(mechanism)
    if note and note not in context.reporter.announcements:
        context.reporter.announce(note)
    return Sandbox(mechanism)


def _mechanism(context: BuildContext) -> Mechanism:
    return best_mechanism(*_programs(context))


def _programs(context: BuildContext) -> tuple[tuple[Path, ...], str]:
    """Return the bubblewraps of this machine, and why the pinned one is not among them."""
    locks, machine, missing, found = context.matrix.sandbox, platform.machine(), "", []
    if platform.system() == "Linux" and machine in locks:
        try:
            folder = unpacked_programs(context, load_lock(context.root, locks[machine]), KIND)
            found.append(folder / "usr" / "bin" / "bwrap")
        except (DownloadError, ToolchainError) as error:
            missing = f"the pinned bubblewrap is not there: {error.what}"
    else:
        missing = f"no bubblewrap is pinned for {platform.system()} {machine}"
    if (own := shutil.which("bwrap")) and not context.options.locked:
        found.append(Path(own))
    return tuple(found), missing


def _refuse_unless_allowed(context: BuildContext, mechanism: Mechanism) -> None:
    options = context.options
    if options.allow_unsandboxed or not (options.locked or options.sandbox_required):
        return
    raise SandboxError(
        "upstream's code cannot be confined on this machine",
        where="--locked" if options.locked else "a nightly job builds commits of anybody",
        output=mechanism.reason.replace("; ", "\n"),
        next_step=REMEDY,
    )


def _note(mechanism: Mechanism) -> str:
    if mechanism.kind == "none":
        return f"upstream's code runs with all rights of this user, not sandboxed: {mechanism.reason}; {REMEDY}"
    if mechanism.kind == "landlock":
        return f"upstream's code is confined by {mechanism.title}, the lesser sandbox: {mechanism.reason}"
    return ""
