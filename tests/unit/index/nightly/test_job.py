"""A nightly job: which sources and targets it takes, what it may use, and what it takes out of the index."""

from __future__ import annotations

import io
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import BuildOptions, NightlyOptions
from cpuwheels.config.paths import Paths
from cpuwheels.config.pins import TorchWheel
from cpuwheels.core.budget import Budget
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import LockedError, StoreError, UnknownTargetError, UsageError
from cpuwheels.farm.batch import Came
from cpuwheels.farm.job import Job as FarmJob
from cpuwheels.farm.job import Needs
from cpuwheels.index.bucket import Folder
from cpuwheels.index.nightly import job as module
from cpuwheels.index.nightly.job import run_nightly
from cpuwheels.index.nightly.on_farm import Farm
from cpuwheels.index.nightly.plan import Job
from cpuwheels.index.nightly.summary import Outcome, SecondBuild, Summary
from cpuwheels.index.nightly.turns import FILE, take_turn
from cpuwheels.index.publish import publish
from index_entries import entry
from index_publications import publication
from sample_source import git, write_tree

pytestmark = pytest.mark.usefixtures("plain_git")

AGES = (90, 40, 5, 4)
"""Days since each commit was made."""


class Night:
    """A job whose wheels are not made; what would be is noted."""

    def __init__(self, base: Path, matrix: Matrix, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base, self.matrix, self.reporter = base, matrix, reporter
        self.tree = write_tree(base / "vllm")
        git(self.tree, "init", "--quiet", "--initial-branch=main")
        self.commits = [self._commit(number, age) for number, age in enumerate(AGES)]
        self.index = base / "index"
        self.jobs: list[Job] = []
        self.maker: tuple[Any, ...] = ()
        self.maker_options: dict[str, Any] = {}
        self.budget = Budget(None, 0, lambda: 0)
        self.attempts = self.again = 0
        for name in ("WheelMaker", "WheelBuilder", "WheelPublisher"):
            monkeypatch.setattr(module, name, self._maker)
        monkeypatch.setattr(module, "run_jobs", self._run)

    def _commit(self, number: int, age: int) -> str:
        (self.tree / "vllm" / f"m{number}.py").write_text("")
        git(self.tree, "add", "--all")
        date = f"{int((datetime.now(UTC) - timedelta(days=age)).timestamp())} +0000"
        git(self.tree, "commit", "--quiet", "-m", f"change {number}", date=date)
        return git(self.tree, "rev-parse", "HEAD")

    def _maker(self, *arguments: object, **options: object) -> Night:
        self.maker, self.maker_options = arguments, options
        return self

    def second_build(self) -> SecondBuild | None:
        self.again += 1
        target = self.maker_options["turn"]
        return SecondBuild(source=self.jobs[0].source, target=target, state="reproduced", text="the same bytes")

    def _run(self, jobs: Any, maker: object, budget: Budget, _: Reporter, *, attempts: int) -> list[Outcome]:
        assert maker is self
        self.jobs, self.budget, self.attempts = list(jobs), budget, attempts
        return [Outcome(source=job.source, target=job.target, state="published") for job in jobs]

    def run(self, farm: Farm | None = None, **options: Any) -> Summary:
        paths = Paths(self.base, self.base / "cache", self.base / "dist")
        given = {"targets": ("x86",), "repo": self.tree, "locked": False} | options
        return run_nightly(paths, self.matrix, Folder(self.index), NightlyOptions(**given), self.reporter, farm=farm)

    @property
    def sources(self) -> list[int]:
        """The numbers of the commits whose wheels would be made."""
        return [self.commits.index(job.source) for job in self.jobs]


@pytest.fixture
def night(tmp_path: Path, project_root: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> Night:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr(module, "free_bytes", lambda _: 1 << 40)
    (tmp_path / "locks").symlink_to(project_root / "locks")
    return Night(tmp_path, load_matrix(project_root), reporter, monkeypatch)


def test_the_newest_commit_alone(night: Night, story: io.StringIO) -> None:
    summary = night.run()
    assert night.sources == [3]
    assert [(one.source, one.state) for one in summary.outcomes] == [(night.commits[3], "published")]
    assert (summary.index, summary.removed) == (str(night.index), ())
    assert f"the newest commit of main is {night.commits[3][:9]} change 3" in story.getvalue()
    assert "1 wheel to make; 0 published before" in story.getvalue()


def test_every_commit_since_another_the_newest_first(night: Night) -> None:
    night.run(since=night.commits[1])
    assert night.sources == [3, 2]
    made = datetime.fromisoformat(night.jobs[1].made)
    assert made == pytest.approx(datetime.now(UTC) - timedelta(days=AGES[2]), abs=timedelta(hours=1))


def test_what_the_index_would_not_keep_is_not_built(night: Night, story: io.StringIO) -> None:
    nightly = night.matrix.nightly.model_copy(update={"keep_days": 30})
    night.matrix = night.matrix.model_copy(update={"nightly": nightly})
    night.run(since=night.commits[0])
    assert night.sources == [3, 2]
    assert "1 commits are left out: the index keeps none that are older than 30 days" in story.getvalue()


def test_the_newest_is_built_however_old_it_is(night: Night) -> None:
    nightly = night.matrix.nightly.model_copy(update={"keep_days": 3})
    night.matrix = night.matrix.model_copy(update={"nightly": nightly})
    night.run(since=night.commits[1])
    assert night.sources == [3]


def test_another_branch(night: Night) -> None:
    git(night.tree, "branch", "side", night.commits[1])
    night.run(branch="side")
    assert night.sources == [1]


def test_the_commit_of_the_newest_release(night: Night) -> None:
    git(night.tree, "tag", "v0.9.0", night.commits[0])
    git(night.tree, "tag", "v0.10.0", night.commits[2])
    night.run(latest_release=True)
    assert night.sources == [2]


def test_a_release_needs_no_repository(night: Night) -> None:
    night.run(release="0.32.0", repo=night.base / "nowhere")
    (job,) = night.jobs
    assert job.source == "0.32.0"
    assert datetime.fromisoformat(job.made) == pytest.approx(datetime.now(UTC), abs=timedelta(minutes=5))


@pytest.mark.parametrize("names", [*itertools.combinations(("since", "release", "latest_release"), 2)], ids="+".join)
def test_one_kind_of_source_at_a_time(night: Night, names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="one of --since, --release and --latest-release"):
        night.run(**dict.fromkeys(names, "v1.0"))


def test_what_is_published_is_not_made_again(night: Night, tmp_path: Path) -> None:
    one = publication(tmp_path / "wheels")
    published = one.entry.model_copy(update={"commit": night.commits[2], "made": "2999-01-01T00:00:00Z"})
    publish(Folder(night.index), replace(one, entry=published))
    summary = night.run(since=night.commits[1])
    assert night.sources == [3]
    assert [one.state for one in summary.outcomes] == ["there", "published"]


def test_old_commits_are_taken_out_of_the_index(night: Night, tmp_path: Path, story: io.StringIO) -> None:
    for number in (1, 2):
        one = publication(tmp_path / "wheels", number)
        entry = one.entry.model_copy(update={"made": f"2020-01-0{number}T00:00:00Z"})
        publish(Folder(night.index), replace(one, entry=entry))
    assert night.run().removed == (f"{1:040x}",)
    assert "1 commits older than 60 days were taken out of the index" in story.getvalue()
    assert len(list(night.index.glob("files/*/*.whl"))) == 1


def test_hours_disk_and_attempts_are_limited(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {night.base / "dist" / "nightly": 7, night.base / "cache": 5}
    monkeypatch.setattr(module, "free_bytes", free.__getitem__)
    night.run(hours=1.5)
    assert night.budget.deadline == pytest.approx(time.monotonic() + 1.5 * 3600, abs=60)
    assert night.budget.keep_free == night.matrix.nightly.keep_free
    assert night.attempts == night.matrix.nightly.attempts
    assert night.budget.free() == 5
    free[night.base / "dist" / "nightly"] = 3
    assert night.budget.free() == 3
    night.run()
    assert night.budget.deadline is None


@pytest.mark.parametrize("level", [None, "smoke"])
def test_wheels_are_made_in_a_folder_of_the_jobs_own(night: Night, level: str | None) -> None:
    pin = night.matrix.torch["2.14.0"]
    wheel = TorchWheel(python="cp311", machine="x86_64", sha256="0" * 64)
    torch = {"2.14.0": pin.model_copy(update={"wheels": (wheel,)})}
    night.matrix = night.matrix.model_copy(update={"torch": torch})
    night.run(level=level, memory="8G", locked=True, address="https://a.org/")
    paths, _, bucket, options, used, _, address = night.maker
    assert address == "https://a.org/"
    assert paths == Paths(night.base, night.base / "cache", night.base / "dist" / "nightly")
    assert bucket.name == str(night.index)
    assert options == BuildOptions(repo=night.tree, memory="8G", locked=True, sandbox_required=True)
    assert used == (level or night.matrix.nightly.parity)


def test_a_locked_job_for_which_no_torch_is_pinned_is_refused_before_it_begins(night: Night) -> None:
    with pytest.raises(LockedError, match=r"torch 2\.14\.0 for x86_64 is not pinned by content") as caught:
        night.run(locked=True)
    assert night.jobs == []
    assert "add {python: cp311, machine: x86_64, sha256: DIGEST}" in caught.value.next_step
    assert "--allow-fallbacks" in caught.value.next_step
    assert caught.value.next_step.endswith("or build without --locked, which is --no-locked here")
    # What is named may ask for another torch; what may be unpinned, or is there, needs none.
    for others in ({"release": "0.32.0"}, {"commit": night.commits[0]}, {"allow_fallbacks": True}, {"part": "publish"}):
        night.run(locked=True, **others)
    macos = night.matrix.target("macos")
    night.run(locked=True, targets=("x86", macos.id))
    assert {job.target for job in night.jobs} == {"x86", "macos"}


def test_a_locked_job_for_which_no_commit_of_a_library_is_pinned_is_refused_likewise(night: Night) -> None:
    torch = night.matrix.torch["2.14.0"]
    wheel = TorchWheel(python="cp311", machine="aarch64", sha256="0" * 64)
    night.matrix.torch["2.14.0"] = torch.model_copy(update={"wheels": (wheel,)})
    with pytest.raises(LockedError, match=r"Arm Compute Library v52\.6\.0 is pinned by its tag alone") as caught:
        night.run(locked=True, targets=("arm",))
    assert night.jobs == []
    assert caught.value.next_step.endswith("or build without --locked, which is --no-locked here")
    night.run(locked=True, targets=("arm",), allow_fallbacks=True)
    night.matrix.acl["v52.6.0"] = night.matrix.acl["v52.6.0"].model_copy(update={"commit": "a" * 40})
    night.run(locked=True, targets=("arm",))
    assert {job.target for job in night.jobs} == {"arm"}


def test_without_a_choice_all_targets_that_are_ready_and_can_be_built_here(
    night: Night, monkeypatch: pytest.MonkeyPatch, story: io.StringIO
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    arm = night.matrix.target("arm")
    planned = arm.model_copy(update={"id": "planned", "status": "planned"})
    night.matrix = night.matrix.model_copy(update={"targets": (planned, night.matrix.target("x86"), arm)})
    night.run(targets=())
    assert [job.target for job in night.jobs] == ["arm"]
    assert "x86 is left out: target 'x86' is built on Linux x86_64; this is Linux aarch64" in story.getvalue()


def test_each_target_that_is_named_is_taken(night: Night) -> None:
    night.run(targets=("arm", "x86"))
    assert [job.target for job in night.jobs] == ["arm", "x86"]
    with pytest.raises(UnknownTargetError):
        night.run(targets=("x68",))


def test_a_folder_that_cannot_be_made_is_told_at_once(night: Night) -> None:
    (night.base / "dist").write_text("")
    with pytest.raises(StoreError) as raised:
        night.run()
    assert raised.value.next_step == "make the output folder writable or pass --dist"


def test_one_commit_by_its_hash(night: Night) -> None:
    night.run(commit=night.commits[1])
    assert night.sources == [1]


@pytest.mark.parametrize("commit", ["main", "a" * 39, "A" * 40, ""])
def test_a_name_is_no_commit(night: Night, commit: str) -> None:
    with pytest.raises(UsageError, match="is not a full hash"):
        night.run(commit=commit)


def test_a_commit_and_a_range_are_two_runs(night: Night) -> None:
    with pytest.raises(UsageError, match="one of --since"):
        night.run(commit=night.commits[1], since=night.commits[0])


@pytest.mark.parametrize("part", ["all", "publish"])
def test_a_publisher_knows_the_version_of_each_source_from_its_history(night: Night, part: str) -> None:
    git(night.tree, "tag", "v0.9.0", night.commits[0])
    (night.base / "dist" / "nightly" / "ready" / f"x86-{night.commits[3]}").mkdir(parents=True)
    night.run(part=part)
    version_of = night.maker_options["version_of"]
    assert night.maker_options["subject_of"](night.commits[3]) == git(
        night.tree, "log", "-1", "--format=%s", night.commits[3]
    )
    assert version_of(night.commits[0]) == "0.9.0"
    assert version_of(night.commits[3]) == f"0.9.1.dev3+g{night.commits[3][:9]}"


def test_what_was_not_built_is_not_published(night: Night) -> None:
    (night.base / "wheels" / f"x86-{night.commits[2]}").mkdir(parents=True)
    summary = night.run(since=night.commits[1], part="publish", wheels=night.base / "wheels", targets=("x86", "arm"))
    assert [(night.commits.index(one.source), one.target, one.state) for one in summary.outcomes] == [
        (2, "x86", "published"),
        (3, "x86", "postponed"),
        (3, "arm", "postponed"),
        (2, "arm", "postponed"),
    ]
    assert night.maker_options["wheels"] == night.base / "wheels"


def test_a_build_takes_nothing_out_of_the_index(night: Night, tmp_path: Path) -> None:
    for number in (1, 2):
        one = publication(tmp_path / "wheels", number)
        publish(Folder(night.index), replace(one, entry=one.entry.model_copy(update={"made": "2020-01-01T00:00:00Z"})))
    before = {path: path.read_bytes() for path in night.index.rglob("*") if path.is_file()}
    assert night.run(part="build").removed == ()
    assert {path: path.read_bytes() for path in night.index.rglob("*") if path.is_file()} == before


class TestSecondBuilds:
    """One target each night, the one that waited longest."""

    def night_of(self, night: Night, *targets: str, **options: Any) -> SecondBuild | None:
        return night.run(targets=targets, **options).second_build

    def last(self, night: Night) -> dict[str, str]:
        found: dict[str, str] = json.loads((night.base / "dist" / "nightly" / FILE).read_text())["last"]
        return found

    def test_each_target_has_its_turn(self, night: Night) -> None:
        turns = []
        for _ in range(4):
            came = self.night_of(night, "x86", "arm", "s390x")
            assert came is not None
            turns.append(came.target)
        assert turns == ["x86", "arm", "s390x", "x86"]

    def test_who_waited_longest_comes_first(self, night: Night) -> None:
        now = datetime.now(UTC)
        for target, days in {"x86": 1, "arm": 3, "s390x": 2}.items():
            take_turn(night.base / "dist" / "nightly", target, now - timedelta(days=days))
        came = self.night_of(night, "x86", "s390x")
        assert came is not None
        assert came.target == "s390x", "of arm nothing is made"

    def test_without_time_it_keeps_its_turn(self, night: Night, story: io.StringIO) -> None:
        assert self.night_of(night, "x86", "arm", hours=1e-9) is None
        assert (night.again, night.maker_options["turn"]) == (0, "x86")
        assert "no second build of x86: the time is up; it keeps its turn" in story.getvalue()
        came = self.night_of(night, "x86", "arm")
        assert came is not None
        assert came.target == "x86"
        assert list(self.last(night)) == ["x86"]

    def test_on_a_full_disk_it_keeps_its_turn(
        self, night: Night, story: io.StringIO, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "free_bytes", lambda _: night.matrix.nightly.keep_free - 1)
        assert self.night_of(night, "x86") is None
        assert night.again == 0
        assert "no second build of x86: too little of the disk is free; it keeps its turn" in story.getvalue()

    @pytest.mark.parametrize(
        ("options", "axes"), [({"verify": False}, ("all",)), ({}, ()), ({"part": "publish"}, ("all",))]
    )
    def test_none_if_it_is_not_wanted(self, night: Night, options: dict[str, Any], axes: tuple[str, ...]) -> None:
        nightly = night.matrix.nightly.model_copy(update={"verify": axes})
        night.matrix = night.matrix.model_copy(update={"nightly": nightly})
        assert self.night_of(night, "x86", **options) is None
        assert night.again == 0
        assert not (night.base / "dist" / "nightly" / FILE).exists()

    def test_none_if_nothing_is_made(self, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "read_entries", lambda *_: [entry(target="x86")])
        assert self.night_of(night, "x86") is None
        assert night.again == 0

    def test_a_wrong_axis_is_told_before_anything_is_built(self, night: Night) -> None:
        nightly = night.matrix.nightly.model_copy(update={"verify": ("umsak",)})
        night.matrix = night.matrix.model_copy(update={"nightly": nightly})
        with pytest.raises(UsageError, match="there is no axis umsak"):
            night.run()
        assert night.jobs == []

    @pytest.mark.parametrize("content", ["", "[]", '{"format": 2}', '{"last": {"x86": "yesterday"}}'])
    def test_a_damaged_memory_begins_anew(self, night: Night, content: str) -> None:
        (night.base / "dist" / "nightly").mkdir(parents=True)
        (night.base / "dist" / "nightly" / FILE).write_text(content)
        came = self.night_of(night, "x86")
        assert came is not None
        assert list(self.last(night)) == ["x86"]


def test_what_came_of_a_second_build_is_in_the_summary(night: Night) -> None:
    lines = night.run().as_markdown().splitlines()
    assert lines[-1] == f"Second build of `{night.commits[3][:9]}` x86: **reproduced**: the same bytes"


class Workers:
    """A farm's workers, who can do what a test says."""

    def __init__(self, *can: str) -> None:
        self._can, self.over = can, False

    def can_do(self, needs: Needs) -> bool:
        return needs.can in self._can

    def cancel(self) -> None:
        self.over = True


def test_a_farm_gets_the_targets_that_its_workers_build_and_no_second_build_is_made_here(
    night: Night, story: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[FarmJob] = []

    def run_batch(jobs: Sequence[FarmJob], *_: object, came: Callable[[Came], None]) -> None:
        sent.extend(jobs)
        for job in jobs:
            came(Came(job, "done"))

    monkeypatch.setattr(module, "FarmBuilder", night._maker)
    monkeypatch.setattr("cpuwheels.index.nightly.on_farm.run_batch", run_batch)
    monkeypatch.setattr("cpuwheels.index.nightly.on_farm.project_identity", lambda _: "of this project")
    workers = Workers("build:arm", "test:arm", "build:macos")
    summary = night.run(Farm(workers), since=night.commits[1], targets=(), part="build")  # type: ignore[arg-type]
    assert sorted((job.target, night.commits.index(job.source)) for job in night.jobs) == [
        ("arm", 2),
        ("arm", 3),
        ("macos", 2),
        ("macos", 3),
    ]
    assert [(job.kind, job.target) for job in sent] == [
        ("kernels", "arm"),
        *[("wheel", "arm"), ("parity", "arm")] * 2,
        ("kernels", "macos"),
        *[("wheel", "macos")] * 2,
    ], "the two commits change no kernel; nobody can serve, and nobody is a Mac"
    assert workers.over
    assert night.again == 0
    assert summary.second_build is None
    assert "x86 is left out: no worker can build it" in story.getvalue()
