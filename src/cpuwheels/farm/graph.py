"""The graph of jobs for wheels that are wanted: a pure function, with the longest way to the end first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.digests import make_key
from cpuwheels.farm.job import Job, Needs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from cpuwheels.farm.job import JobKind


@dataclass(frozen=True)
class Wanted:
    """One wheel.

    Attributes:
        target: Target id.
        source: Full hash of a commit, or version of a release.
        kernels: Class of its kernels; those of one class have the same ones. Empty if it is not known.
    """

    target: str
    source: str
    kernels: str = ""


@dataclass(frozen=True)
class Order:
    """What is done with each wheel, and how.

    Attributes:
        identity: See `cpuwheels.farm.job.project_identity`.
        options: Options of the builds.
        check: Whether wheels are installed and their libraries are loaded.
        level: How many cases of parity; None for no parity.
        models: Models that are served; none if empty.
        features: What the CPU that parity and serving run on has to have.
        priority: Above all seconds: a higher one goes before every job of a lower one.
    """

    identity: str
    options: tuple[str, ...] = ()
    check: bool = True
    level: str | None = None
    models: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    priority: int = 0


@dataclass(frozen=True)
class Estimate:
    """What jobs take, as far as it is known.

    Attributes:
        seconds: Returns the seconds of a kind of job for a target.
        memory: Returns the bytes of a target's largest compilation.
    """

    seconds: Callable[[JobKind, str], float]
    memory: Callable[[str], int]


RANK = 10_000_000.0
"""Seconds that one step of priority is worth: no way through a graph takes as long."""


def make_graph(wanted: Iterable[Wanted], order: Order, estimate: Estimate) -> tuple[Job, ...]:
    """Return the jobs for wheels, each after those whose results it uses, the same key once.

    Kernels are a job of their own where several wheels have the same ones: these are compiled once, by one machine.

    Args:
        wanted: The wheels.
        order: What is done with each.
        estimate: What jobs take.
    """
    wheels = list(dict.fromkeys(wanted))
    shared = Counter((one.target, one.kernels) for one in wheels if one.kernels)
    jobs: dict[str, Job] = {}
    for one in wheels:
        kernels = None
        if shared[one.target, one.kernels] > 1:
            kernels = _job("kernels", one, order, estimate, of=one.kernels)
            jobs.setdefault(kernels.key, kernels)
        wheel = wheel_job(one, order, estimate, after=(kernels.key,) if kernels else ())
        jobs.setdefault(wheel.key, wheel)
        if order.level is not None:
            parity = _job("parity", one, order, estimate, "--level", order.level, of=wheel.key, after=(wheel.key,))
            jobs.setdefault(parity.key, parity)
        if order.models:
            models = [part for model in order.models for part in ("--model", model)]
            serve = _job("serve", one, order, estimate, *models, of=wheel.key, after=(wheel.key,))
            jobs.setdefault(serve.key, serve)
    return longest_first(list(jobs.values()), order.priority)


def wheel_job(one: Wanted, order: Order, estimate: Estimate, after: tuple[str, ...] = ()) -> Job:
    """Return the job that makes a wheel.

    Args:
        one: The wheel.
        order: How it is built.
        estimate: What jobs take.
        after: Keys of the jobs whose results it uses.
    """
    job = _job("wheel", one, order, estimate, *([] if order.check else ["--no-check"]), of=one.source, after=after)
    # With kernels that are there nothing is compiled.
    return job.model_copy(update={"seconds": estimate.seconds("wheel" if after else "kernels", one.target)})


def wheel_after_kernels(one: Wanted, order: Order, estimate: Estimate) -> tuple[Job, Job]:
    """Return the job that compiles a wheel's kernels, for all that have the same ones, and the one that packs it.

    Args:
        one: The wheel; the class of its kernels is known.
        order: How it is built.
        estimate: What jobs take.
    """
    kernels = _job("kernels", one, order, estimate, of=one.kernels)
    first, second = longest_first([kernels, wheel_job(one, order, estimate, (kernels.key,))], order.priority)
    return first, second


def longest_first(jobs: Sequence[Job], priority: int = 0) -> tuple[Job, ...]:
    """Return jobs with their priorities: what the longest way to the end begins with comes first.

    Args:
        jobs: Each after those whose results it uses.
        priority: Above all seconds.
    """
    ways: dict[str, float] = {}
    for job in reversed(jobs):
        way = ways.get(job.key, 0.0) + job.seconds
        ways[job.key] = way
        for key in job.after:
            ways[key] = max(ways.get(key, 0.0), way)
    return tuple(job.model_copy(update={"priority": priority * RANK + ways[job.key]}) for job in jobs)


def still_needed(jobs: Sequence[Job], stored: Collection[str]) -> tuple[Job, ...]:
    """Return the jobs that have to run: not those whose results are stored, nor those that nothing else then needs.

    Args:
        jobs: Each after those whose results it uses.
        stored: Keys of what is stored.
    """
    needed: set[str] = set()
    for job in reversed(jobs):
        if job.key in stored:
            continue
        if job.kind != "kernels" or job.key in needed:  # kernels are made for wheels alone
            needed |= {job.key, *job.after}
    return tuple(job for job in jobs if job.key in needed and job.key not in stored)


def _job(
    kind: JobKind, one: Wanted, order: Order, estimate: Estimate, *more: str, of: str, after: tuple[str, ...] = ()
) -> Job:
    builds = kind in {"kernels", "wheel"}
    options = (*(order.options if builds else ()), *more)
    can = "build" if builds else "test" if kind == "parity" else "serve"
    needs = Needs(
        can=f"{can}:{one.target}",
        memory=estimate.memory(one.target) if builds else 0,
        features=frozenset() if builds else order.features,
    )
    key = make_key(
        kind=kind, target=one.target, of=of, options=options, identity=order.identity, features=needs.features
    )
    return Job(
        key=key,
        kind=kind,
        target=one.target,
        source=one.source,
        options=options,
        after=after,
        needs=needs,
        seconds=estimate.seconds(kind, one.target),
        identity=order.identity,
    )
