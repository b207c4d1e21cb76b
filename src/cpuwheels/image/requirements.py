"""The locked requirements of a wheel for an image's Python and machine, and which of them have no wheels for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cpuwheels.config.debian_lock import glibc_of
from cpuwheels.config.host import markers
from cpuwheels.core.errors import ImageError, LockedError
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.fetch.uv import NEWEST_GLIBC, compile_requirements
from cpuwheels.fetch.wheel_tags import missing_wheels
from cpuwheels.verification.serving.locks import LOCKS, own_name
from cpuwheels.verification.serving.requirements import APART, lock_fits, requirements_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.debian_lock import DebianLock
    from cpuwheels.config.image_pins import ImagePins
    from cpuwheels.wheel.kernel_wheel import KernelWheel

_LOG = "image-packages.log"


def locked_requirements(
    context: BuildContext, wheel: KernelWheel, pins: ImagePins, base: DebianLock, session: str, *, relock: bool
) -> Path:
    """Return the lock of everything that a wheel requires but torch.

    Args:
        context: The run.
        wheel: The wheel.
        pins: What the image is made from.
        base: The Debian packages of its base.
        session: Which sessions write the lock, for messages: ``serve`` or ``image``.
        relock: Resolve them anew and write the lock.

    Raises:
        ImageError: Some of them have no wheel for the image's machine.
        LockedError: There is no lock that fits.
        BuildEnvironmentError: They cannot be resolved.
    """
    lock = context.root / "locks" / LOCKS / own_name(context.target.id, wheel.version, pins.python)
    wanted = requirements_of(wheel.requires, markers(context.target, pins.python))
    if relock:
        resolve([str(one) for one in wanted], context, pins, base, lock)
        context.reporter.info(f"written: {lock}")
    if not lock.is_file():
        refuse_missing([str(one) for one in wanted], context, pins, base)
    misfits = lock_fits(lock.read_text(encoding="utf-8"), wanted) if lock.is_file() else ["a lock"]
    if misfits:
        raise LockedError(
            f"the wheel's requirements are not locked for Python {pins.python}: {', '.join(misfits)} is missing",
            where=lock,
            next_step=f"write it with nox -s {session}-{context.target.id} -- --relock",
        )
    return lock


def resolve(
    wanted: Sequence[str],
    context: BuildContext,
    pins: ImagePins,
    base: DebianLock,
    lock: Path,
    constraints: Path | None = None,
) -> None:
    """Write a lock of requirements and all that these require, but for what is in `APART`.

    Args:
        wanted: The requirements.
        context: The run.
        pins: Of the image.
        base: As for `locked_requirements`.
        lock: The file to write.
        constraints: A lock whose versions are kept.

    Raises:
        ImageError: Some of them have no wheel for the image's machine.
        BuildEnvironmentError: They cannot be resolved.
    """
    refuse_missing(wanted, context, pins, base)
    resolved = context.logs / "image-resolved.txt"
    platform = f"--python-platform={uv_platform(context.target.machine, base)}"
    options: list[str | Path] = ["--generate-hashes", "--only-binary", ":all:", platform]
    if constraints:
        options += ["--constraint", constraints]
    _compile(wanted, context, pins, options, resolved)
    lock.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(lock, resolved.read_text(encoding="utf-8"))


def uv_platform(machine: str, base: DebianLock) -> str:
    """Return a machine with a base's C library, as uv names it.

    Args:
        machine: As the kernel names it.
        base: The Debian packages of its base.
    """
    return f"{machine}-manylinux_2_{min(glibc_of(base), NEWEST_GLIBC)}"


def refuse_missing(wanted: Sequence[str], context: BuildContext, pins: ImagePins, base: DebianLock) -> None:
    """Refuse requirements that have no wheels for the image's machine; a Debian package of the base does as well.

    Raises:
        ImageError: There are such requirements.
        BuildEnvironmentError: They cannot be resolved.
    """
    files = context.logs / "pylock.image.toml"
    debian = {canonicalize_name(package.name.removeprefix("python3-")) for package in base.packages}
    found = missing_wheels(
        wanted,
        _without(pins),
        files,
        about=markers(context.target, pins.python),
        glibc=glibc_of(base),
        log=context.logs / _LOG,
    )
    if missing := [one for one in found if canonicalize_name(one.partition("==")[0]) not in debian]:
        raise ImageError(
            f"{len(missing)} requirements have no wheel for {context.target.machine} and Python {pins.python}: "
            f"{', '.join(missing)}",
            where=f"Requires-Dist of the wheel; {files}",
            next_step="an image cannot be complete without them: build their wheels and name the index that has them "
            "in UV_INDEX",
        )


def _compile(
    wanted: Sequence[str], context: BuildContext, pins: ImagePins, options: Sequence[str | Path], output: Path
) -> None:
    compile_requirements(wanted, _without(pins), output, python=pins.python, options=options, log=context.logs / _LOG)


def _without(pins: ImagePins) -> list[str]:
    return sorted({*APART, *map(canonicalize_name, pins.without)})
