"""What would confine upstream's code on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.doctor.check import Check
from cpuwheels.sandbox.mechanism import REMEDY

if TYPE_CHECKING:
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.doctor.inputs import Context
    from cpuwheels.sandbox.mechanism import Mechanism


def sandbox_check(context: Context, matrix: Matrix) -> Check:
    """Return what confines upstream's code; a small command is run to find out, and nothing is fetched."""
    # They are slow to import, and only this check needs them.
    from cpuwheels.sandbox.prepare import KIND, choose_mechanism, pinned_lock  # noqa: PLC0415
    from cpuwheels.toolchain.debian_compiler import stored_programs  # noqa: PLC0415

    lock = pinned_lock(matrix)
    pinned = stored_programs(load_lock(context.root, lock), KIND, context.store) if lock else None
    if lock and pinned is None:
        return Check("sandbox", "info", f"not tried: the first build fetches bubblewrap (locks/{lock}.yaml)")
    return judge_mechanism(choose_mechanism(pinned, locked=context.locked), locked=context.locked)


def judge_mechanism(mechanism: Mechanism, *, locked: bool) -> Check:
    """Return the finding for a mechanism.

    Args:
        mechanism: The best of this machine.
        locked: Whether a build is refused where there is none.
    """
    if mechanism.program is not None:
        return Check("sandbox", "ok", mechanism.title)
    detail = f"{mechanism.title}: {mechanism.reason}"
    return Check("sandbox", "fail" if locked and mechanism.kind == "none" else "warn", detail, REMEDY)
