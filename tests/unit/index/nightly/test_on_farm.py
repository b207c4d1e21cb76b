"""The wheels of a nightly job that a farm makes: when they are taken, and what becomes of those it does not make."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.budget import Budget
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CompileError, FarmError, ParityError, PostponedError
from cpuwheels.farm.done import Done
from cpuwheels.farm.executor import FarmGoneError
from cpuwheels.farm.job import Job as FarmJob
from cpuwheels.farm.job import Needs
from cpuwheels.index.nightly.on_farm import FOLDER, Farm, FarmNight, nightly_graph
from cpuwheels.index.nightly.plan import Job

MADE = "2026-11-22T10:00:00Z"
A, B = Job("a" * 40, "x86", MADE), Job("b" * 40, "x86", MADE)
PLENTY = Budget(None, 0, lambda: 0)


class Hands:
    """A farm whose jobs end when and as a test says."""

    def __init__(self, dist: Path, can: Callable[[str], bool] = lambda _: True) -> None:
        self.dist, self._can = dist, can
        self.futures: dict[tuple[str, str], tuple[FarmJob, Future[Done]]] = {}
        self.refuses = self.over = False
        self.changed = threading.Event()

    def can_do(self, needs: Needs) -> bool:
        return self._can(needs.can)

    def tell_begun(self, tell: Callable[[str, str], None]) -> None:
        del tell

    def know(self, done: Done, dist: Path) -> None:
        raise AssertionError((done, dist))

    def expect(self, jobs: Iterable[FarmJob]) -> None:
        del jobs

    def submit(self, job: FarmJob, *, avoid: Iterable[str] = ()) -> Future[Done]:
        assert not list(avoid)
        if self.refuses:
            raise FarmError("no machine can do it")
        _, future = self.futures.setdefault((job.kind, job.source), (job, Future()))
        self.changed.set()
        return future

    def cancel(self) -> None:
        self.over = True
        for _, future in self.futures.values():
            future.cancel()

    def end(self, kind: str, job: Job, code: int = 0, error: Exception | None = None, output: str = "") -> None:
        while (kind, job.source) not in self.futures:
            assert self.changed.wait(10), "it was not sent"
            self.changed.clear()
        sent, future = self.futures[kind, job.source]
        if error is not None:
            future.set_exception(error)
            return
        place = f"x86/{job.source[:3]}"
        wheel = self.dist / FOLDER / place / "vllm.whl"
        if kind != "kernels" and (kind != "wheel" or not code):
            wheel.parent.mkdir(parents=True, exist_ok=True)
            wheel.write_text(job.source)
            wheel.with_name(f"{kind}.json").write_text("{}")
        digest = hashlib.sha256(job.source.encode()).hexdigest()
        done = Done(sent.key, code, output=output, by="one")
        if wheel.exists():
            done = Done(sent.key, code, place, wheel.name, digest, output=output, by="one")
        future.set_result(done)


class Setting:
    def __init__(self, base: Path, root: Path, reporter: Reporter) -> None:
        self.paths, self.reporter, self.matrix = Paths(root, base / "cache", base / "dist"), reporter, load_matrix(root)
        self.hands = Hands(self.paths.dist)
        self.output = base / "output"

    def graph(self, jobs: Iterable[Job], classes: dict[str, str] | None = None) -> tuple[FarmJob, ...]:
        farm = Farm(self.hands, priority=7)
        build = BuildOptions(source="x", memory="8G", repo=Path("clone"), locked=True)
        return nightly_graph(list(jobs), farm, self.matrix, self.paths, build, "smoke", classes or {}, self.reporter)

    def night(self, *jobs: Job, classes: dict[str, str] | None = None) -> FarmNight:
        return FarmNight(jobs, self.graph(jobs, classes), Farm(self.hands), self.paths, self.reporter)


@pytest.fixture
def setting(tmp_path: Path, project_root: Path, reporter: Reporter) -> Setting:
    return Setting(tmp_path, project_root, reporter)


@pytest.fixture
def smoke_alone(setting: Setting) -> Setting:
    """A farm whose workers serve nothing."""
    setting.hands = Hands(setting.paths.dist, lambda what: not what.startswith("serve"))
    return setting


def came(night: FarmNight, budget: Budget = PLENTY) -> Iterator[Job]:
    return night.as_they_come(budget)


def test_wheels_are_taken_as_they_come_and_not_before_they_are_tested(smoke_alone: Setting) -> None:
    hands = smoke_alone.hands
    with smoke_alone.night(A, B, classes={A.source: "k", B.source: "k"}) as night:
        taken = came(night)
        hands.end("kernels", A)
        for job in (A, B):
            hands.end("wheel", job)
        hands.end("parity", B)
        assert next(taken) == B
        hands.end("parity", A)
        assert next(taken) == A
        assert list(taken) == []
        wheel = night.take(A, smoke_alone.output)
        assert wheel == smoke_alone.output / "x86" / "aaa" / "vllm.whl"
        assert wheel.read_text() == A.source
        assert wheel.with_name("parity.json").exists()
        assert not (smoke_alone.paths.dist / FOLDER / "x86" / "aaa").exists(), "what was taken is not kept twice"
        assert night.take(A, smoke_alone.output) == wheel, "what follows may be attempted again"
        assert wheel.read_text() == A.source
        assert night.failures(A) == []


def test_what_the_time_is_too_short_for_is_given_up(smoke_alone: Setting) -> None:
    over = threading.Event()
    budget = Budget(1.0, 0, lambda: 0, lambda: 2.0 if over.is_set() else 0.0)
    with smoke_alone.night(A, B) as night:
        taken = came(night, budget)
        smoke_alone.hands.end("wheel", B)
        smoke_alone.hands.end("parity", B)
        assert next(taken) == B
        smoke_alone.hands.end("wheel", A)
        over.set()
        assert list(taken) == [A], "it is left to who counts what was not done"
        with pytest.raises(PostponedError, match="given up before it was done"):
            night.take(A, smoke_alone.output)
        assert smoke_alone.hands.over


def test_a_wheel_that_was_not_built_has_its_builds_error(smoke_alone: Setting) -> None:
    with smoke_alone.night(A) as night:
        told = "x.cpp: error: no\nerror: x.cpp does not compile\n  where: here"
        smoke_alone.hands.end("wheel", A, CompileError.exit_code, output=told)
        smoke_alone.hands.end("parity", A, -1)
        assert list(came(night)) == [A]
        with pytest.raises(CompileError, match=r"wheel x86 aaaaaaaaaaaa failed: x.cpp does not compile"):
            night.take(A, smoke_alone.output)


def test_a_wheel_whose_test_failed_comes_with_the_tests_error(smoke_alone: Setting) -> None:
    with smoke_alone.night(A) as night:
        smoke_alone.hands.end("wheel", A)
        smoke_alone.hands.end("parity", A, ParityError.exit_code)
        assert list(came(night)) == [A]
        assert night.take(A, smoke_alone.output).with_name("parity.json").exists()
        (error,) = night.failures(A)
        assert isinstance(error, ParityError)


def test_a_farm_that_is_gone_postpones_its_wheels(smoke_alone: Setting) -> None:
    with smoke_alone.night(A, B) as night:
        taken = came(night)
        for kind in ("wheel", "parity"):
            smoke_alone.hands.end(kind, A, error=FarmGoneError("it is gone", where="tls://there"))
        assert next(taken) == A
        with pytest.raises(PostponedError, match="it is gone"):
            night.take(A, smoke_alone.output)


def test_a_job_that_no_worker_can_do_ends_the_night(smoke_alone: Setting) -> None:
    smoke_alone.hands.refuses = True
    with smoke_alone.night(A) as night, pytest.raises(FarmError, match="no machine can do it"):
        list(came(night))


def test_jobs_are_what_workers_can_do(setting: Setting) -> None:
    setting.hands = Hands(setting.paths.dist, lambda what: what in {"build:x86", "build:macos", "serve:x86"})
    graph = setting.graph([A, Job("a" * 40, "macos", MADE)])
    assert {(job.kind, job.target) for job in graph} == {
        ("wheel", "x86"),
        ("parity", "x86"),
        ("serve", "x86"),
        ("wheel", "macos"),
    }, "only a wheel for macOS goes untested"
    (wheel,) = [job for job in graph if (job.kind, job.target) == ("wheel", "x86")]
    assert wheel.options[-1:] == ("--locked",)
    assert not {"--memory", "--repo", "--source", "8G"} & set(wheel.options)
    assert wheel.priority > 7e6
    told = setting.reporter.console.file.getvalue()  # type: ignore[attr-defined]
    assert "no worker can test macos: its wheels are published untested" in told
