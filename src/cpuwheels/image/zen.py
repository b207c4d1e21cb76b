"""AMD's zentorch in an image: the wheel's extra ``zen``, if its release is for the wheel's torch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from cpuwheels.core.errors import ImageError, LockedError
from cpuwheels.image.python_packages import without
from cpuwheels.image.requirements import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.debian_lock import DebianLock
    from cpuwheels.config.image_pins import ImagePins
    from cpuwheels.wheel.kernel_wheel import KernelWheel

EXTRA = "zen"
LOCKS = "image"
_NAMES = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)


def zen_requirement(requires: Iterable[str], torch: str, where: Path) -> Requirement:
    """Return what the extra requires: zentorch of one version.

    zentorch's metadata names no version of torch; the first three numbers of its own version do.

    Args:
        requires: What the wheel's metadata requires.
        torch: The version that the wheel requires.
        where: The wheel, for messages.

    Raises:
        ImageError: The wheel has no such extra, or it is for another torch.
    """
    for one in map(Requirement, requires):
        if one.name == "zentorch" and one.marker is not None and one.marker.evaluate({"extra": EXTRA}):
            exact = [spec.version for spec in one.specifier if spec.operator == "=="]
            release = ".".join(map(str, Version(exact[0]).release[:3])) if exact else ""
            if release != Version(torch).base_version:
                raise ImageError(
                    f"{one.name}{one.specifier} is for torch {release or 'of any version'}, and the wheel requires "
                    f"torch {torch}",
                    where=where,
                    next_step="leave --zen out, or give a wheel of a release whose zentorch fits its torch",
                )
            return one
    raise ImageError(f"{where.name} has no extra {EXTRA}", where=where, next_step="leave --zen out")


def zen_lock(
    context: BuildContext, wheel: KernelWheel, pins: ImagePins, requirements: Path, base: DebianLock, *, relock: bool
) -> Path:
    """Return the lock of what the extra adds to the other requirements.

    Args:
        context: The run.
        wheel: The wheel.
        pins: What the image is made from.
        requirements: The lock of the other requirements, whose versions are kept.
        base: The Debian packages of its base.
        relock: Resolve them anew and write the lock.

    Raises:
        ImageError: There is no such extra, or it is for another torch, or has no wheels for this machine.
        LockedError: There is no lock, or it is of another version.
        BuildEnvironmentError: They cannot be resolved.
    """
    wanted = zen_requirement(wheel.requires, wheel.torch, wheel.path)
    lock = context.root / "locks" / LOCKS / f"{requirements.stem}-{EXTRA}.txt"
    pinned = f"{wanted.name}{wanted.specifier}"
    if relock:
        resolve([pinned], context, pins, base, lock, requirements)
        there = _NAMES.findall(requirements.read_text(encoding="utf-8"))
        lock.write_text(without(lock.read_text(encoding="utf-8"), there), encoding="utf-8")
        context.reporter.info(f"written: {lock}")
    if not lock.is_file() or f"{pinned} " not in lock.read_text(encoding="utf-8"):
        raise LockedError(
            f"{pinned} is not locked",
            where=lock,
            next_step=f"write it with nox -s image-{context.target.id} -- --zen --relock",
        )
    return lock
