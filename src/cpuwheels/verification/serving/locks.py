"""The requirements that are installed to serve a wheel: the project's lock if it fits, else one that is made now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packaging.version import Version

from cpuwheels.config.host import markers
from cpuwheels.core.errors import LockedError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.fetch.uv import compile_requirements
from cpuwheels.verification.serving.requirements import APART, lock_fits, requirements_of

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext

LOCKS = "serve"
"""Folder of the locks, below ``locks/``."""

_PLATFORM = "manylinux_2_31"
"""Some of vLLM's requirements (llguidance 1.7) have no wheels for an older glibc."""


@dataclass(frozen=True)
class Needs:
    """What an environment that serves a wheel has to have.

    Attributes:
        version: Of the wheel.
        wheel: ``Requires-Dist`` of the wheel.
        torch: ``Requires-Dist`` of the torch.
        python: Version of Python, such as ``3.11``.
    """

    version: str
    wheel: tuple[str, ...]
    torch: tuple[str, ...]
    python: str


@dataclass(frozen=True)
class Lock:
    """Requirements with one version of each package, and hashes.

    Attributes:
        path: The file.
        name: Of the project's lock, or how the requirements were resolved.
    """

    path: Path
    name: str


def own_name(target: str, version: str, python: str) -> str:
    """Return the file name of the project's lock for a wheel: what it requires can depend on the Python version."""
    return f"{target}-{Version(version).public}-py{python}.txt"


def own_lock(context: BuildContext, version: str, python: str) -> Path:
    """Return where the project's lock for a wheel of the run's target is, or would be."""
    return context.root / "locks" / LOCKS / own_name(context.target.id, version, python)


def misfits(context: BuildContext, own: Path, lines: tuple[str, ...], python: str) -> str:
    """Return why a lock cannot be used for a wheel; empty if it can.

    Args:
        context: The run.
        own: The lock.
        lines: ``Requires-Dist`` of the wheel.
        python: Version of Python.
    """
    if not own.is_file():
        return f"there is no {own.name}"
    wanted = requirements_of(lines, markers(context.target, python))
    found = lock_fits(own.read_text(encoding="utf-8"), wanted)
    return f"{own.name} does not have {', '.join(found)}" if found else ""


def choose_lock(context: BuildContext, needs: Needs, work: Path, *, locked: bool, relock: bool) -> Lock:
    """Return the lock to install: the project's own if it fits, else one that is made now.

    Args:
        context: The run.
        needs: What it has to have.
        work: Folder for one that is made.
        locked: Refuse requirements that no lock of the project has.
        relock: Resolve the requirements anew and write the project's lock.

    Raises:
        LockedError: ``locked``, and the project has no lock that fits.
        BuildEnvironmentError: The requirements cannot be resolved.
    """
    own = own_lock(context, needs.version, needs.python)
    if relock:
        _resolve(context, needs, own)
        context.reporter.info(f"written: {own}")
    why = misfits(context, own, needs.wheel, needs.python)
    if not why:
        return Lock(own, own.relative_to(context.root).as_posix())
    if locked:
        raise LockedError(
            f"the wheel's requirements are not locked: {why}",
            where=own,
            next_step=f"write it with nox -s serve-{context.target.id} -- --relock, or serve without --locked",
        )
    context.reporter.announce(f"requirements are resolved now, from what the package index has today: {why}")
    made = work / "requirements.txt"
    _resolve(context, needs, made)
    return Lock(made, f"resolved on {datetime.now(UTC).date().isoformat()}")


def _resolve(context: BuildContext, needs: Needs, lock: Path) -> None:
    """Write a lock of everything that a wheel and torch require, but for what is in `APART`."""
    resolved = context.logs / "serve-requirements.txt"
    platform = [f"--python-platform={context.target.machine}-{_PLATFORM}"] if context.target.system == "Linux" else []
    compile_requirements(
        [*needs.wheel, *needs.torch],
        APART,
        resolved,
        python=needs.python,
        options=["--generate-hashes", "--only-binary", ":all:", *platform],
        log=context.logs / "serve-environment.log",
    )
    with storage_errors(lock.parent):
        lock.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(lock, resolved.read_text(encoding="utf-8"))
