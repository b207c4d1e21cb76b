"""The build of a rebuild: that version's own command, in stores of its own, with everything but downloads made anew."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.elsewhere import KEY_VARIABLE, STORE_VARIABLE
from cpuwheels.core.entry_links import link_entries
from cpuwheels.core.errors import RebuildError
from cpuwheels.core.filesystem import link_or_copy, storage_errors
from cpuwheels.core.process import relay
from cpuwheels.core.sealed_entry import MANIFEST
from cpuwheels.core.store import Store
from cpuwheels.core.verbosity import verbosity_arguments
from cpuwheels.pipeline.variation.machine import FROM_COPY, LAUNCH, NOTHING, alone
from cpuwheels.source.result import EPOCH_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpuwheels.pipeline.variation.machine import Machine
    from cpuwheels.rebuild.mirror.use import Mirror
    from cpuwheels.rebuild.plan import RebuildPlan
    from cpuwheels.rebuild.program import Program

_DOWNLOADS = "downloads"
_FETCHED = (_DOWNLOADS, "sources", "onednn", "acl")
"""Kinds of what was fetched, which is compared with its digest or commit when it is fetched."""

_CLONES = ("git", "commits")


class BuildFailedError(Exception):
    """The build of a rebuild has failed and printed why.

    Attributes:
        status: Its exit status.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"the rebuild ended with status {status}")
        self.status = status


@dataclass(frozen=True)
class Place:
    """Where a rebuild happens; removed afterwards.

    Attributes:
        base: Folder of everything.
        mirror: Where everything is taken from, with the network closed; None for the network and what was fetched
            before.
        share: Options of the build that limit its memory and compilations; they change nothing of the wheel.
    """

    base: Path
    mirror: Mirror | None = None
    share: tuple[str, ...] = ()

    @property
    def cache(self) -> Path:
        """Its stores."""
        return self.base / "cache"

    @property
    def dist(self) -> Path:
        """Its output."""
        return self.base / "dist"


@contextmanager
def rebuilt(plan: RebuildPlan, program: Program, matrix: Path | None, place: Place, store: Store) -> Iterator[Path]:
    """Build a wheel as another one was built, and yield it; downloads are given to the store for the next time.

    Args:
        plan: How.
        program: The version that does it, with its interpreter.
        matrix: The configuration, if it is not the program's own.
        place: Where.
        store: What was fetched before is taken from there; nothing that was made.

    Raises:
        BuildFailedError: It fails; it has printed why.
        StoreError: A folder cannot be written.
    """
    with storage_errors(place.base):
        for folder in (place.cache, place.dist, place.base / "here"):
            folder.mkdir(parents=True, exist_ok=True)
    if place.mirror is None:
        _share(store, place.cache)
    else:
        place.mirror.fill(Store(place.cache))
    folders: list[str | Path] = ["--root", program.root, "--cache", place.cache, "--dist", place.dist]
    folders += ["--matrix", matrix] if matrix else []
    command: list[str | Path] = [str(program.python), FROM_COPY, program.source, *verbosity_arguments(), *folders]
    started = launched([*command, *plan.arguments(), *place.share], place.base, network=place.mirror is None)
    done = relay(started, env=_environment(plan), cwd=place.base / "here")
    if place.mirror is None:
        with contextlib.suppress(OSError):
            give_back(place.cache, store)
    if done.returncode != 0:
        raise BuildFailedError(done.returncode)
    wheel = Path(done.output.strip())
    if not wheel.is_file() or not wheel.is_relative_to(place.dist):
        raise RebuildError("the build names no wheel", where=place.dist, output=done.output[-1000:])
    yield wheel


def _share(store: Store, cache: Path) -> None:
    with storage_errors(cache):
        link_entries(store.root, _FETCHED, cache)
        for name in _CLONES:
            if (store.root / name).is_dir():
                shutil.copytree(store.root / name, cache / name, symlinks=True, copy_function=link_or_copy)


def launched(command: list[str | Path], base: Path, *, network: bool) -> list[str | Path]:
    """Return a command that runs another one, with the network of this machine or with one that has nothing in it.

    Args:
        command: The other one.
        base: A folder for the launcher's plan.
        network: Whether it sees this machine's.
    """
    if network:
        return command
    plan = base / "launch.json"
    with storage_errors(base):
        plan.write_text(json.dumps(alone(NOTHING)))
    return [sys.executable, "-I", "-S", LAUNCH, plan, "--", *command]


def require_closed(machine: Machine) -> None:
    """Check that a command can have a network with nothing in it.

    Raises:
        RebuildError: It cannot, here.
    """
    if why := machine.networks:
        raise RebuildError(
            f"the network cannot be closed here: {why}",
            where="--mirror",
            next_step="allow user namespaces, or rebuild on another machine",
        )


def give_back(cache: Path, store: Store) -> None:
    """Give a store what was downloaded into another one; each is compared with its digest when it is used.

    Raises:
        OSError: The other one cannot be read.
        StoreError: It cannot be written.
    """
    for entry in sorted((cache / _DOWNLOADS).glob("[!.]*")):
        if not store.has(_DOWNLOADS, entry.name):
            store.get(_DOWNLOADS, entry.name, partial(_link_files, entry))


def _link_files(entry: Path, folder: Path) -> None:
    for each in entry.iterdir():
        if each.name != MANIFEST:
            link_or_copy(str(each), str(folder / each.name))


def _environment(plan: RebuildPlan) -> dict[str, str]:
    # From a shared store it would get what it is to make itself.
    without = {EPOCH_VARIABLE, STORE_VARIABLE, KEY_VARIABLE}
    own = {name: value for name, value in os.environ.items() if name not in without}
    epoch = plan.asked.source_date_epoch
    return own if epoch is None else {**own, EPOCH_VARIABLE: str(epoch)}
