"""Wheels in the output folder that need not be made again."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  (pydantic reads the annotations)
from typing import TYPE_CHECKING

from pydantic import ConfigDict, ValidationError

from cpuwheels.core.digests import code_digest, file_digest, make_key
from cpuwheels.core.errors import WheelError
from cpuwheels.core.models import Strict

if TYPE_CHECKING:
    from cpuwheels.config.matrix import Target
    from cpuwheels.pipeline.provenance import Provenance

RECORD = "record.json"


class _Wheel(Strict):
    model_config = ConfigDict(extra="ignore")

    file: str
    sha256: str
    size: int
    versions: tuple[str, ...]
    policy: str


class _Jobs(Strict):
    model_config = ConfigDict(extra="ignore")

    compiled_in_this_run: bool


class _Parameters(Strict):
    model_config = ConfigDict(extra="ignore")

    locked: bool = False


class _Record(Strict):
    """The part of a build record that shows whether the wheel next to it is still the one to build."""

    model_config = ConfigDict(extra="ignore")

    wheel_key: str
    wheel: _Wheel
    beside: tuple[str, ...]
    notes: tuple[str, ...] = ()
    jobs: _Jobs
    parameters: _Parameters | None = None


class BuiltWheel(Strict):
    """A wheel in the output folder."""

    path: Path
    sha256: str
    size: int
    """Bytes."""
    versions: tuple[str, ...]
    """Symbol versions it needs, the highest of each family."""
    policy: str
    """Platform policy it fits."""
    key: str
    """See `wheel_key`."""
    compiled: bool
    """Whether its kernels were compiled for it."""
    notes: tuple[str, ...]
    """What was announced when it was made."""
    locked: bool = False
    """Whether only what is listed could be fetched for it."""


def wheel_key(provenance: Provenance, target: Target, tools: Path) -> str:
    """Return the key of a wheel: a digest of its kernels' key and everything else that its bytes depend on.

    This program's own code is part of it, since it packs and checks the wheel.

    Args:
        provenance: What is written into the wheel: digests of source and kernels, epoch.
        target: Floor, libraries and what is left out of the wheel.
        tools: Lock of the tools that pack it.
    """
    return make_key(provenance=provenance, target=target, tools=file_digest(tools), code=code_digest())


def find_built(output: Path, key: str, *, locked: bool = False) -> BuiltWheel | None:
    """Return the wheel of a key if an output folder has it, whole and with all files that belong to it.

    Args:
        output: The folder.
        key: See `wheel_key`.
        locked: Whether one does not count that was built without ``--locked``.
    """
    try:
        finished = read_built(output)
    except WheelError:
        return None
    return finished if finished.key == key and (finished.locked or not locked) else None


def read_built(output: Path) -> BuiltWheel:
    """Return the wheel in an output folder, if it is the one in its record.

    Raises:
        WheelError: There is none, it has other bytes, or a file next to it is missing.
    """
    record = _read_record(output)
    path = output / record.wheel.file
    missing = [name for name in (record.wheel.file, *record.beside) if not (output / name).exists()]
    if missing or file_digest(path) != record.wheel.sha256:
        raise WheelError(
            f"{', '.join(missing) or path.name} is missing or changed since it was built",
            where=output,
            next_step="build it",
        )
    wheel = record.wheel
    return BuiltWheel(
        path=path,
        sha256=wheel.sha256,
        size=wheel.size,
        versions=wheel.versions,
        policy=wheel.policy,
        key=record.wheel_key,
        compiled=record.jobs.compiled_in_this_run,
        notes=record.notes,
        locked=bool(record.parameters and record.parameters.locked),
    )


def were_compiled(output: Path) -> bool:
    """Return whether the kernels of the wheel in an output folder were compiled for it; its bytes are not read.

    Raises:
        WheelError: There is no record of one.
    """
    return _read_record(output).jobs.compiled_in_this_run


def _read_record(output: Path) -> _Record:
    try:
        return _Record.model_validate_json((output / RECORD).read_bytes())
    except (OSError, ValidationError) as error:
        raise WheelError(f"{RECORD} names no wheel", where=output, next_step="build it") from error
