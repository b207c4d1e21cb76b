"""A nightly job from its sources to its summary."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypedDict

from packaging.version import Version

from cpuwheels.config.host import check_host
from cpuwheels.core.budget import Budget
from cpuwheels.core.errors import CpuwheelsError, LockedError, UsageError
from cpuwheels.core.filesystem import free_bytes, make_folders, storage_errors
from cpuwheels.core.step_limits import finish_by
from cpuwheels.core.store import Store
from cpuwheels.core.text import counted
from cpuwheels.environment.torch_index import torch_pin
from cpuwheels.environment.torch_install import refuse_unpinned
from cpuwheels.farm.sources import kernel_classes
from cpuwheels.fetch.git import FULL_HASH
from cpuwheels.fetch.git_archive import repositories_of
from cpuwheels.index.entry import stamp
from cpuwheels.index.nightly.builder import FarmBuilder, WheelBuilder
from cpuwheels.index.nightly.on_farm import FarmNight, nightly_graph
from cpuwheels.index.nightly.plan import plan_jobs
from cpuwheels.index.nightly.publisher import WheelPublisher
from cpuwheels.index.nightly.queue import run_jobs
from cpuwheels.index.nightly.ready import READY, ready_folder
from cpuwheels.index.nightly.summary import Outcome, SecondBuild, Summary
from cpuwheels.index.nightly.turns import take_turn, whose_turn
from cpuwheels.index.nightly.worker import WheelMaker
from cpuwheels.index.reading import read_entries
from cpuwheels.index.retention import remove_old
from cpuwheels.pipeline.variation.axes import DEFAULT, axes_of
from cpuwheels.source import acl
from cpuwheels.source.clone import REPOSITORY_VARIABLE, open_repository
from cpuwheels.source.history import history_between
from cpuwheels.source.version import describe, newest_release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from cpuwheels.attestation.sign import Signing
    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.options import NightlyOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.index.bucket import Bucket
    from cpuwheels.index.nightly.on_farm import Farm
    from cpuwheels.index.nightly.plan import Job
    from cpuwheels.source.repository import Repository

FOLDER = "nightly"
"""The job's folder, below the output folder."""


def run_nightly(
    paths: Paths,
    matrix: Matrix,
    bucket: Bucket,
    options: NightlyOptions,
    reporter: Reporter,
    signing: Signing | None = None,
    farm: Farm | None = None,
) -> Summary:
    """Build, test and publish what is new, and take out what is old; or one part of that.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        bucket: Where wheels are published.
        options: What the user chose.
        reporter: Told of every step.
        signing: How what is published is signed, if only that is done.
        farm: Who makes and tests the wheels, if that alone is done; this machine when None.

    Raises:
        CpuwheelsError: There are no sources, no such target, or the index cannot be read or changed.
    """
    began, now = time.monotonic(), datetime.now(UTC)
    own = replace(paths, dist=paths.dist / FOLDER)
    targets = _targets(paths, matrix, options, reporter, farm)
    _require_pins(matrix, options, targets)
    sources = _sources(paths, matrix, options, reporter, now)
    with storage_errors(own.dist, next_step="make the output folder writable or pass --dist"):
        make_folders(own.dist)
    plan = plan_jobs(sources.moments, targets, lambda source: {entry.target for entry in read_entries(bucket, source)})
    reporter.info(f"{counted(len(plan.jobs), 'wheel')} to make; {len(plan.there)} published before")
    deadline = began + options.hours * 3600 if options.hours else None
    budget = Budget(deadline, matrix.nightly.keep_free, lambda: min(free_bytes(own.dist), free_bytes(paths.cache)))
    level = options.level or matrix.nightly.parity
    arguments = (own, matrix, bucket, options.build, level, reporter, options.address)
    verified = options.verify and options.part != "publish" and farm is None and bool(matrix.nightly.verify)
    turn = whose_turn(own.dist, (job.target for job in plan.jobs)) if verified else None
    axes_of(
        matrix.nightly.verify or DEFAULT, "matrix.yaml: nightly.verify"
    )  # a wrong name is found before hours are spent
    maker: WheelMaker
    about: _About = {"version_of": sources.version, "subject_of": sources.subject}
    jobs: Iterable[Job] = plan.jobs
    later: list[Job] = []
    if options.part == "publish":
        budget = replace(budget, keep_free=0)
        wheels = (options.wheels or own.dist / READY).expanduser().resolve()
        later = [job for job in plan.jobs if not ready_folder(wheels, job).is_dir()]
        jobs = tuple(job for job in plan.jobs if job not in later)
        maker = WheelPublisher(*arguments, **about, wheels=wheels, signing=signing)
    elif options.part == "build":
        maker = WheelBuilder(*arguments, turn=turn)
    else:
        maker = WheelMaker(*arguments, **about, turn=turn)
    outcomes = [Outcome(source=job.source, target=job.target, state="there") for job in plan.there]
    with finish_by(deadline), ExitStack() as stack:
        if farm is not None and plan.jobs:
            classes = sources.kernel_classes(Store(paths.cache))
            graph = nightly_graph(plan.jobs, farm, matrix, own, options.build, level, classes, reporter)
            night = stack.enter_context(FarmNight(plan.jobs, graph, farm, own, reporter))
            maker, jobs = FarmBuilder(*arguments, night=night), night.as_they_come(budget)
        outcomes += run_jobs(jobs, maker, budget, reporter, attempts=matrix.nightly.attempts)
        second = _second_build(maker, turn, own.dist, budget, reporter)
    outcomes += [
        Outcome(source=job.source, target=job.target, state="postponed", reason="it was not built") for job in later
    ]
    removed = [] if options.part == "build" else remove_old(bucket, matrix.nightly.keep_days, now)
    if removed:
        reporter.info(f"{len(removed)} commits older than {matrix.nightly.keep_days} days were taken out of the index")
    return Summary(
        began=stamp(now),
        seconds=round(time.monotonic() - began, 2),
        index=bucket.name,
        outcomes=tuple(outcomes),
        removed=tuple(removed),
        second_build=second,
    )


def _second_build(
    maker: WheelMaker, turn: str | None, folder: Path, budget: Budget, reporter: Reporter
) -> SecondBuild | None:
    """Build the wheel of the target whose turn it is a second time, if there is time left."""
    if turn is None:
        return None
    if spent := budget.spent():
        reporter.info(f"no second build of {turn}: {spent}; it keeps its turn")
        return None
    take_turn(folder, turn, datetime.now(UTC))
    return maker.second_build()


class _About(TypedDict):
    """What a maker of wheels asks about sources."""

    version_of: Callable[[str], str]
    subject_of: Callable[[str], str]


@dataclass(frozen=True)
class _Sources:
    """What is built.

    Attributes:
        moments: Full hashes of commits or versions, the newest first, with when they were made.
        repository: Where the commits are; None for a release.
    """

    moments: dict[str, str]
    repository: Repository | None = None

    def subject(self, source: str) -> str:
        """Return the first line of a commit's message; nothing of a release."""
        return self.repository.subject(source) if self.repository else ""

    def kernel_classes(self, store: Store) -> dict[str, str]:
        """Return the class of each commit's kernels, as predicted; nothing of one commit or a release."""
        if self.repository is None or len(self.moments) == 1:
            return {}
        return kernel_classes(list(self.moments), self.repository, store)

    def version(self, source: str) -> str:
        """Return the version of a source: that of a commit by its history.

        Raises:
            SourceError: git cannot tell.
        """
        return describe(self.repository.git, source).version if self.repository else source


def _sources(paths: Paths, matrix: Matrix, options: NightlyOptions, reporter: Reporter, now: datetime) -> _Sources:
    """Return the sources to build with their moments, the newest first, without those too old for the index to keep."""
    if options.commit is not None and not FULL_HASH.fullmatch(options.commit):
        raise UsageError(f"{options.commit!r} is not a full hash", where="--commit", next_step="give all 40 digits")
    kinds = (options.since, options.release, options.latest_release, options.commit)
    if len([given for given in kinds if given]) > 1:
        raise UsageError(
            "one of --since, --release and --latest-release can be given, or --commit",
            where="nightly",
            next_step="run it once for each",
        )
    if options.release:
        return _Sources({options.release: stamp(now)})
    branch = options.branch or matrix.nightly.branch
    remotes = repositories_of(matrix.repositories, REPOSITORY_VARIABLE, os.environ)
    wanted = [options.commit] if options.commit else [branch, *([options.since] if options.since else [])]
    repository = open_repository(options.repo, remotes, wanted, store=Store(paths.cache), reporter=reporter)
    name = newest_release(repository) if options.latest_release else options.commit or branch
    newest = repository.commit(name)
    said = "the commit" if options.commit else f"the newest commit of {name}"
    reporter.info(f"{said} is {newest[:9]} {repository.subject(newest)}")
    since = newest if options.since is None else repository.commit(options.since)
    names = [newest]
    if since != newest:
        history = history_between(repository, since, newest, first_parent=True)
        names = [commit.name for commit in reversed(history.commits)]
    # A commit may claim any date. Their order is that of history, and none is of tomorrow.
    claimed = {name: datetime.fromtimestamp(repository.epoch(name), UTC) for name in names}
    made = {name: stamp(min(moment, now)) for name, moment in claimed.items()}
    oldest = stamp(now - timedelta(days=matrix.nightly.keep_days))
    young = {name: moment for name, moment in made.items() if name == newest or moment >= oldest}
    if len(young) < len(made):
        reporter.info(
            f"{len(made) - len(young)} commits are left out: the index keeps none that are older than "
            f"{matrix.nightly.keep_days} days"
        )
    return _Sources(young, repository)


def _require_pins(matrix: Matrix, options: NightlyOptions, targets: Sequence[str]) -> None:
    """Refuse a locked job that could build no commit of a branch: what they may ask for is not pinned.

    Raises:
        LockedError: It is pinned for no target.
    """
    named = options.commit or options.release or options.latest_release
    if named or options.part == "publish" or options.allow_fallbacks or not options.locked:
        return
    refused: list[LockedError] = []
    for target in map(matrix.target, targets):
        fault = _unpinned(matrix, target)
        if fault is None:
            return
        refused.append(fault)
    if refused:
        refused[0].next_step += ", which is --no-locked here"
        raise refused[0]


def _unpinned(matrix: Matrix, target: Target) -> LockedError | None:
    """Return what commits of a branch ask for that is not pinned for a target.

    They ask for the torch of the release that is built by default, or for a newer one, and some for one version of Arm
    Compute Library.
    """
    release = matrix.release(matrix.source_of(target))
    least = (release and release.torch) or max(matrix.torch, key=Version)
    coming = [pin for torch, pin in matrix.torch.items() if Version(torch) >= Version(least)]
    if not any(pin.wheels_for(target.machine) for pin in coming):
        return refuse_unpinned(least, torch_pin(matrix, least), target, matrix.python[0])
    libraries = {tag: pin for tag, pin in matrix.acl.items() if target.machine in pin.machines}
    if libraries and not any(pin.commit for pin in libraries.values()):
        return acl.refuse_unpinned(next(reversed(libraries)))
    return None


def _targets(
    paths: Paths, matrix: Matrix, options: NightlyOptions, reporter: Reporter, farm: Farm | None
) -> Sequence[str]:
    """Return the targets that can be built here or by a farm, or published: those asked for, or all that are ready."""
    if options.targets:
        return [matrix.buildable(name).id for name in options.targets]
    found = []
    for target in (target for target in matrix.targets if target.is_ready):
        if options.part == "publish":
            found.append(target.id)
            continue
        if farm is not None:
            if farm.can(f"build:{target.id}"):
                found.append(target.id)
            else:
                reporter.info(f"{target.id} is left out: no worker can build it")
            continue
        try:
            check_host(target, paths.root)
        except CpuwheelsError as error:
            reporter.info(f"{target.id} is left out: {error.what}")
        else:
            found.append(target.id)
    return found
