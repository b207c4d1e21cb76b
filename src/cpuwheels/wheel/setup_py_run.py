"""The process that asks ``setup.py``: started here and nowhere else, and not believed in anything.

It runs a program of whoever wrote the source. What it leaves is taken over as plain files of limited size
(`cpuwheels.core.collect`); what it notes of itself is checked field by field and only ever makes that it is asked
again with more of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import ValidationError

from cpuwheels.core.collect import Limits, collect_tree, read_regular
from cpuwheels.core.errors import CommandError, WheelError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.models import Strict
from cpuwheels.core.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cpuwheels.sandbox.confine import Confined

PROBE = Path(__file__).parent / "resources" / "setup_py_probe.py"
_METADATA, _PACKAGES = "metadata", "packages"

_LIMITS = {_METADATA: Limits(files=1000, size=16 << 20), _PACKAGES: Limits(files=50_000, size=1 << 30)}
"""vLLM 0.33.0 has a ``.dist-info`` of 5 files and 27 kB, and a package of 3,650 files and 51 MB."""

_NOTES_SIZE = 64 << 20
"""vLLM 0.33.0: 0.7 MB."""

_INSTALLER_FOLDERS = (".dist-info", ".data", ".egg-info")
"""What installers take for something else than package files, and the build alone writes into a wheel."""


class Notes(Strict):
    """What asking one question did, by the asked process's own account; see the probe."""

    read: tuple[str, ...]
    """Files of the source, besides those that were only copied."""
    written: tuple[str, ...]
    """Absolute paths."""
    copied: dict[str, str]
    """Absolute paths: the copy → what setuptools copied."""
    against: tuple[str, ...]
    """Reasons why the answers depend on more than can be noted."""


@dataclass(frozen=True)
class Asked:
    """What the process left.

    Attributes:
        folder: Copies of the files: ``metadata`` and ``packages``.
        packages: Names of the package files.
        left: Where the process itself wrote the package files.
        notes: One for each question.
    """

    folder: Path
    packages: tuple[str, ...]
    left: Path
    notes: tuple[Notes, ...]

    @property
    def metadata(self) -> Path:
        """Folder with the ``.dist-info``."""
        return self.folder / _METADATA

    @property
    def package_folder(self) -> Path:
        """Folder with the package files."""
        return self.folder / _PACKAGES


Confine: TypeAlias = "Callable[[Sequence[str | Path], Path], Confined]"
"""Confines a command that works in a folder."""


def ask_setup_py(copy: Path, work: Path, *, python: Path, confine: Confine, source: Path, log: Path) -> Asked:
    """Ask the ``setup.py`` of a copy of a source, and take over what it answers.

    Args:
        copy: The copy; the process may change it.
        work: For the answers; nothing is there yet.
        python: Interpreter of the build environment.
        confine: Confines the process.
        source: For messages: what it is a copy of.
        log: Log file of the step.

    Raises:
        WheelError: ``setup.py`` fails, or leaves something that is no answer.
        StoreError: ``work`` cannot be written.
    """
    answered = work / "answers"
    with storage_errors(work):
        (answered / _METADATA).mkdir(parents=True)
    # -P: the probe's own folder holds modules of ours.
    _run(confine([python, "-P", PROBE, answered], work), copy, source, log)
    try:
        with storage_errors(work):
            collected = {
                name: tuple(collect_tree(answered / name, work / "collected" / name, limits))
                for name, limits in _LIMITS.items()
            }
        _check_names(collected[_PACKAGES])
        notes = tuple(_read_notes(answered / f"{name}.json") for name in _LIMITS)
    except ValueError as error:
        raise WheelError(
            f"the source's setup.py left something that is not taken over: {error}",
            where=source / "setup.py",
            log=log,
            next_step="see what its setup.py writes; nothing of it was used",
        ) from error
    return Asked(work / "collected", collected[_PACKAGES], answered / _PACKAGES, notes)


def _run(confined: Confined, copy: Path, source: Path, log: Path) -> None:
    try:
        run(confined.argv, log=log, env=confined.env, cwd=copy)
    except CommandError as error:
        raise WheelError(
            "the source's setup.py does not give its metadata and package files",
            where=source / "setup.py",
            log=log,
            output=error.output,
            next_step="read the log; a missing module belongs into the locked build environment, and neither the "
            "network nor other files of this machine are there for it",
        ) from error


def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        top, below, _ = name.partition("/")
        if below and top.endswith(_INSTALLER_FOLDERS):
            raise ValueError(f"{name} is a package file where a wheel has what its build says of it")


def _read_notes(path: Path) -> Notes:
    try:
        return Notes.model_validate_json(read_regular(path, _NOTES_SIZE))
    except ValidationError as error:
        fault = error.errors()[0]
        raise ValueError(f"{path.name}: {fault['loc']!a}: {fault['msg']}") from error
