"""Which results are kept for others, and which are given up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cpuwheels.farm.done import Done
from cpuwheels.farm.given import Given
from cpuwheels.farm.job import Job
from cpuwheels.farm.results import Results
from farms import jobs_for


class Kept:
    """Stands for a future of dask."""

    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


def given_to(results: Results, *jobs: Job) -> dict[str, Any]:
    results.expected |= {job.key: job for job in jobs}
    kept = {job.key: Kept() for job in jobs}
    for job in jobs:
        results.given[job.key] = Given(job, frozenset({"one"}), attempts=[kept[job.key]])  # type: ignore[list-item]
        results.futures[job.key] = kept[job.key]  # type: ignore[assignment]
    return kept


def finish(results: Results, job: Job, error: Exception | None = None) -> None:
    given = results.given[job.key]
    if error is not None:
        given.result.set_exception(error)
    else:
        given.result.set_result(Done(job.key))
        if job.kind == "kernels":
            results.kernels[job.key] = Done(job.key)
    results.give_up(given)


def test_what_a_wheel_would_be_made_from_again_is_kept_as_long_as_a_test_waits_for_it() -> None:
    kernels, wheel, parity, other, _ = jobs_for("a", "b", kernels="k", level="smoke")
    results = Results()
    kept = given_to(results, kernels, wheel, parity)
    for job in (kernels, wheel):
        finish(results, job)
    assert {one.released for one in kept.values()} == {0}
    finish(results, parity)
    assert {one.released > 0 for one in kept.values()} == {True}
    assert list(results.given) == [kernels.key], "a job that comes later may use kernels"
    assert results.known[kernels.key]() == Done(kernels.key)
    assert (results.futures, results.expected) == ({}, {})
    assert other.key not in results.known


def test_a_job_that_will_be_given_keeps_what_it_uses() -> None:
    kernels, wheel, *_ = jobs_for("a", "b", kernels="k")
    results = Results()
    kept = given_to(results, kernels)
    results.expected[wheel.key] = wheel
    finish(results, kernels)
    assert kept[kernels.key].released == 0


def test_kernels_that_failed_or_are_not_trusted_are_not_kept() -> None:
    (failed, *_), (distrusted, *_) = jobs_for("a", "b", kernels="k"), jobs_for("c", "d", kernels="l")
    results = Results()
    given_to(results, failed, distrusted)
    finish(results, failed, OSError())
    results.given[distrusted.key].result.set_result(Done(distrusted.key))
    results.known[distrusted.key] = lambda: Done(distrusted.key, code=1)
    results.give_up(results.given[distrusted.key])
    assert list(results.given) == [distrusted.key]
    assert results.known[distrusted.key]().code == 1


def test_what_was_sent_is_sent_again(tmp_path: Path) -> None:
    class Client:
        sent: list[Done]

        def __init__(self) -> None:
            self.sent = []

        def scatter(self, done: Done, hash: bool) -> object:  # noqa: A002  (dask's name)
            assert not hash
            self.sent.append(done)
            return object()

    results, client = Results(), Client()
    (job,) = jobs_for("a")
    results.know(Done(job.key), tmp_path)
    first = results.at_farm(job.key, client)  # type: ignore[arg-type]
    assert results.at_farm(job.key, client) is first  # type: ignore[arg-type]
    assert results.were_sent([job.key])
    assert not results.were_sent(["another"])
    assert results.at_farm(job.key, client) is not first  # type: ignore[arg-type]
    assert [one.key for one in client.sent] == [job.key] * 2
