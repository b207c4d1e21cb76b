"""A nightly job: what is planned, what becomes of it, and what is said."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest
from rich.console import Console

from cpuwheels.core.budget import Budget
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import (
    CompileError,
    CpuwheelsError,
    DiskFullError,
    DownloadError,
    ParityError,
    PostponedError,
    SourceError,
    UnsuitableSourceError,
)
from cpuwheels.index.nightly.plan import Job, plan_jobs
from cpuwheels.index.nightly.queue import PAUSE_SECONDS, Made, run_jobs
from cpuwheels.index.nightly.summary import Outcome, State, Summary, outcome_table, worst
from pseudo_terminal import WIDTHS, printed

A, B = "a" * 40, "b" * 40
NEW, OLD = "2026-11-22T10:00:00Z", "2026-11-21T10:00:00Z"
JOBS = [Job(B, "x86", NEW), Job(B, "arm", NEW), Job(A, "x86", OLD)]


class Maker:
    """Fails as it is told: errors by job, one for each attempt."""

    def __init__(self, faults: dict[Job, list[CpuwheelsError]] | None = None) -> None:
        self.faults = faults or {}
        self.made: list[Job] = []
        self.kept: list[Job] = []

    def make(self, job: Job) -> Made:
        self.made.append(job)
        if left := self.faults.get(job):
            raise left.pop(0)
        return Made(f"{job.target}.whl")

    def keep(self, job: Job, error: CpuwheelsError) -> str:
        assert error
        self.kept.append(job)
        return f"kept/{job.target}"


def budget(**changes: object) -> Budget:
    values: dict[str, object] = {"deadline": None, "keep_free": 10, "free": lambda: 11, "now": lambda: 0.0}
    return Budget(**(values | changes))  # type: ignore[arg-type]


def run(maker: Maker, limits: Budget | None = None, pause: Callable[[float], None] = lambda _: None) -> list[Outcome]:
    reporter = Reporter("nightly", Console(file=io.StringIO()))
    return run_jobs(JOBS, maker, limits or budget(), reporter, attempts=3, pause=pause)


class TestPlan:
    def test_the_newest_first_and_what_is_there_is_left_out(self) -> None:
        there = {A: {"x86"}, B: set[str]()}
        plan = plan_jobs({B: NEW, A: OLD}, ["x86", "arm"], there.__getitem__)
        assert plan.jobs == (Job(B, "x86", NEW), Job(B, "arm", NEW), Job(A, "arm", OLD))
        assert plan.there == (Job(A, "x86", OLD),)

    def test_nothing_is_left_when_all_is_there(self) -> None:
        assert plan_jobs({A: OLD}, ["x86"], lambda _: ["x86", "arm"]).jobs == ()


class TestJobs:
    def test_all_are_published(self) -> None:
        maker = Maker()
        assert [(one.state, one.wheel, one.attempts) for one in run(maker)] == [
            ("published", "x86.whl", 1),
            ("published", "arm.whl", 1),
            ("published", "x86.whl", 1),
        ]
        assert maker.made == JOBS

    @pytest.mark.parametrize(
        ("error", "state"),
        [(CompileError("ops.cpp does not compile"), "failed"), (ParityError("2 operators are wrong"), "wrong")],
    )
    def test_one_that_fails_keeps_no_other_from_being_done(self, error: CpuwheelsError, state: State) -> None:
        maker = Maker({JOBS[0]: [error]})
        outcomes = run(maker)
        assert [one.state for one in outcomes] == [state, "published", "published"]
        assert (outcomes[0].reason, outcomes[0].kept, outcomes[0].attempts) == (error.what, "kept/x86", 1)
        assert maker.kept == [JOBS[0]]

    @pytest.mark.parametrize("error", [DownloadError("no route"), SourceError("vLLM cannot be fetched")])
    def test_what_may_pass_is_tried_again(self, error: CpuwheelsError) -> None:
        waited: list[float] = []
        maker = Maker({JOBS[1]: [error, error]})
        outcomes = run(maker, pause=waited.append)
        assert [one.state for one in outcomes] == ["published"] * 3
        assert outcomes[1].attempts == 3
        assert waited == [PAUSE_SECONDS, 2 * PAUSE_SECONDS]

    def test_what_does_not_pass_is_given_up(self) -> None:
        outcomes = run(Maker({JOBS[1]: [DownloadError("no route")] * 3}))
        assert [(one.state, one.attempts) for one in outcomes][1] == ("failed", 3)
        assert run(Maker({JOBS[0]: [UnsuitableSourceError("no kernels")]}))[0].attempts == 1

    def test_a_full_disk_stops_it(self) -> None:
        maker = Maker({JOBS[0]: [DiskFullError("no space is left")]})
        outcomes = run(maker)
        assert [(one.state, one.reason) for one in outcomes] == [
            ("failed", "no space is left"),
            ("postponed", "no space is left"),
            ("postponed", "no space is left"),
        ]
        assert maker.kept == []

    def test_the_time_is_up(self) -> None:
        times = iter([0.0, 0.0, 50.0, 100.0, 100.0])
        outcomes = run(Maker(), budget(deadline=100.0, now=lambda: next(times)))
        assert [one.state for one in outcomes] == ["published", "postponed", "postponed"]
        assert outcomes[1].reason == "the time is up"

    def test_the_time_is_up_inside_of_a_step(self) -> None:
        """What was made so far stays for the next run: the wheel is not given up, and no other is begun."""
        maker = Maker({JOBS[1]: [PostponedError("the time is up: compile was ended")]})
        found = run(maker)
        assert [one.state for one in found] == ["published", "postponed", "postponed"]
        assert found[1].reason == "the time is up: compile was ended"
        assert maker.made == JOBS[:2]
        assert maker.kept == []

    def test_too_little_of_the_disk_is_free(self) -> None:
        free = iter([20, 9])
        outcomes = run(Maker(), budget(free=lambda: next(free)))
        assert [one.reason for one in outcomes][1:] == ["too little of the disk is free"] * 2

    def test_no_second_attempt_when_the_time_is_up(self) -> None:
        now = 0.0
        maker = Maker({JOBS[0]: [DownloadError("no route")] * 3})

        def later() -> float:
            nonlocal now
            now += 40
            return now

        assert run(maker, budget(deadline=100.0, now=later))[0].attempts == 1


class TestSummary:
    def summary(self, *states: State) -> Summary:
        outcomes = [
            Outcome(source=A, target="x86", state=state, reason="a | b\nc" if state == "failed" else "", seconds=61.0)
            for state in states
        ]
        return Summary(began="2026-11-23T05:00:00Z", seconds=3700.0, index="here", outcomes=tuple(outcomes))

    def test_one_line(self) -> None:
        assert self.summary("published", "there", "failed").as_line() == "1 published, 1 there, 1 failed in 1:01:40"
        assert self.summary().as_line() == "nothing to do in 1:01:40"

    def test_markdown_for_a_job_page(self) -> None:
        text = self.summary("published", "failed").as_markdown()
        assert text.startswith("## Nightly wheels: 1 published, 1 failed in 1:01:40\n\n| source |")
        assert f"| `{A[:9]}` | x86 | ❌ failed | 1:01 | a \\| b c |" in text
        assert "|" not in self.summary().as_markdown()

    def test_json_is_read_back(self) -> None:
        summary = self.summary("wrong", "postponed")
        assert Summary.model_validate(json.loads(summary.as_json()), strict=False) == summary

    def test_the_table_has_each_wheel(self) -> None:
        for width in WIDTHS:
            rows = printed(outcome_table(self.summary("published", "failed")).print, width).rows
            states = [row.split()[2] for row in rows if row.startswith(A[:9])]
            assert states == ["published", "failed"]

    @pytest.mark.parametrize(
        ("states", "found"),
        [
            ((), None),
            (("published", "there"), None),
            (("published", "postponed"), "postponed"),
            (("failed", "postponed"), "failed"),
            (("failed", "wrong"), "wrong"),
        ],
    )
    def test_the_worst_decides(self, states: tuple[State, ...], found: State | None) -> None:
        assert worst(self.summary(*states).outcomes) == found
