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
from cpuwheels.sandbox.mechanism import REMEDY, Mechanism
from cpuwheels.toolchain.debian_compiler import unpacked_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.sandbox.confine import Confine, Confined
    from cpuwheels.sandbox.steps import Step

KIND = "sandbox"
"""bubblewrap's kind in the store."""

_UNPACKED: dict[tuple[Path, Path, str], Path] = {}


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


def confine_as(context: BuildContext, step: Callable[[Path], Step]) -> Confine:
    """Return what confines the commands of a run that are one step.

    Args:
        context: The run.
        step: Returns the step of a command, whose program it is given: in most cases an interpreter.

    Raises:
        SandboxError: As `get_sandbox`.
    """
    sandbox = get_sandbox(context)

    def confine(argv: Sequence[str | Path], env: Mapping[str, str]) -> Confined:
        return sandbox.confine(step(Path(argv[0])), argv, env, context.logs)

    return confine


def pinned_lock(matrix: Matrix) -> str:
    """Return the name of the lock with bubblewrap for this machine; nothing if none is pinned."""
    return matrix.sandbox.get(platform.machine(), "") if platform.system() == "Linux" else ""


def choose_mechanism(pinned: Path | None, missing: str = "", *, locked: bool) -> Mechanism:
    """Return the best mechanism of this machine.

    Args:
        pinned: Folder with the pinned bubblewrap, if there is one.
        missing: Why not, else.
        locked: Whether no other bubblewrap is looked for.
    """
    found = [pinned / "usr" / "bin" / "bwrap"] if pinned else []
    if not locked and (own := shutil.which("bwrap")):
        found.append(Path(own))
    none = "" if pinned else f"no bubblewrap is pinned for {platform.system()} {platform.machine()}"
    return best_mechanism(tuple(found), missing or none)


def _mechanism(context: BuildContext) -> Mechanism:
    pinned, missing = None, ""
    if lock := pinned_lock(context.matrix):
        try:
            pinned = _unpacked(context, lock)
        except (DownloadError, ToolchainError) as error:
            missing = f"the pinned bubblewrap is not there: {error.what}"
    return choose_mechanism(pinned, missing, locked=context.options.locked)


def _unpacked(context: BuildContext, lock: str) -> Path:
    """Return the folder with the pinned bubblewrap, which a run looks for once and not for each of its steps."""
    asked = (context.root, context.store.root, lock)
    if asked not in _UNPACKED:
        _UNPACKED[asked] = unpacked_programs(context, load_lock(context.root, lock), KIND)
    return _UNPACKED[asked]


def _refuse_unless_allowed(context: BuildContext, mechanism: Mechanism) -> None:
    options = context.options
    if options.allow_unsandboxed or not (options.locked or options.sandbox_required):
        return
    raise SandboxError(
        "upstream's code cannot be confined on this machine",
        where="--locked" if options.locked else "nightly jobs and farms build commits of anybody",
        output=mechanism.reason.replace("; ", "\n"),
        next_step=REMEDY,
    )


def _note(mechanism: Mechanism) -> str:
    if mechanism.kind == "none":
        return f"upstream's code runs with all rights of this user, not sandboxed: {mechanism.reason}; {REMEDY}"
    if mechanism.kind == "landlock":
        return f"upstream's code is confined by {mechanism.title}, the lesser sandbox: {mechanism.reason}"
    return ""
