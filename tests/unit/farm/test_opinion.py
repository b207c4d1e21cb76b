"""Which wheel counts when machines do not agree."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path

import pytest

from cpuwheels.core.errors import FarmError, NotReproducedError
from cpuwheels.farm.done import Done
from cpuwheels.farm.job import Job
from cpuwheels.farm.opinion import Opinions
from farms import jobs_for

(JOB,) = jobs_for("a")
RIGHT, WRONG, OTHER = "a" * 64, "b" * 64, "c" * 64


class Machines:
    """Answers in the order given; the name of each machine is the number of its answer."""

    def __init__(self, *answers: Done) -> None:
        self.answers = list(answers)
        self.avoided: list[list[str]] = []
        self.left_out: list[str] = []

    def know(self, done: Done, dist: Path) -> None: ...

    def cancel(self) -> None: ...

    def submit(self, job: Job, *, avoid: Iterable[str] = ()) -> Future[Done]:
        assert job.alone
        self.avoided.append(list(avoid))
        if not self.answers:
            raise FarmError("no machine can do it")
        future: Future[Done] = Future()
        future.set_result(self.answers.pop(0))
        return future

    def settled(self, first: str) -> Done:
        def leave_out(_job: Job, done: Done) -> str:
            self.left_out.append(done.by)
            return done.by

        return Opinions(self, lambda _: None, leave_out).settled(JOB, made(first, "1"))


def made(digest: str, by: str, code: int = 0) -> Done:
    return Done("k", sha256=digest, by=by, wheel="a.whl", code=code, output="it failed" if code else "")


def test_two_agree() -> None:
    machines = Machines(made(RIGHT, "2"))
    assert machines.settled(RIGHT).by == "1"
    assert (machines.avoided, machines.left_out) == ([["1"]], [])


def test_a_third_decides_against_the_first() -> None:
    machines = Machines(made(RIGHT, "2"), made(RIGHT, "3"))
    assert machines.settled(WRONG).by == "2"
    assert (machines.avoided, machines.left_out) == ([["1"], ["1", "2"]], ["1"])


def test_what_counts_is_the_result_of_the_job_that_was_asked_for() -> None:
    assert Machines(made(RIGHT, "2"), made(RIGHT, "3")).settled(WRONG).key == JOB.key


def test_a_third_decides_against_the_second() -> None:
    machines = Machines(made(WRONG, "2"), made(RIGHT, "3"))
    assert machines.settled(RIGHT).by == "1"
    assert machines.left_out == ["2"]


def test_who_cannot_make_it_has_no_opinion() -> None:
    machines = Machines(made("", "2", code=27), made(RIGHT, "3"))
    assert machines.settled(RIGHT).by == "1"
    assert machines.left_out == []


@pytest.mark.parametrize(
    "answers", [(), (made(WRONG, "2"),), (made(WRONG, "2"), made(OTHER, "3")), (made("", "2", 27), made("", "3", 27))]
)
def test_no_two_agree(answers: tuple[Done, ...]) -> None:
    machines = Machines(*answers)
    with pytest.raises(NotReproducedError, match="no two machines of the farm agree on wheel x86 a") as raised:
        machines.settled(RIGHT)
    assert f"1: a.whl {RIGHT}" in raised.value.output
    assert machines.left_out == []
