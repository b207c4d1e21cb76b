"""A bisection of a small repository, whose commits are judged in no time."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from cpuwheels.bisect import bisection as module
from cpuwheels.bisect.bisection import run_bisection
from cpuwheels.bisect.person import Person
from cpuwheels.bisect.result import Outcome
from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.state import Probe
from cpuwheels.bisect.wheels import Wheels
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BisectOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import BisectError, DownloadError, TargetNotBuiltError, UsageError
from sample_source import commit, write_tree

pytestmark = pytest.mark.usefixtures("plain_git")

COMMITS, KERNEL, GUILTY = 12, 6, 9
"""The last commit, the one that changes a kernel, and the first bad one."""


class Trier:
    """Stands for what tests commits: each is bad from one on."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.tried: list[int] = []
        self.told: list[int] = []
        self.expected: dict[int, list[int]] = {}
        self.wheels: Wheels | None = None
        self.at_once = 0
        self.person: Person | None = None
        self.stop_after = COMMITS

    def open(
        self, wheels: Wheels, judge: object, folder: Path, _: object, *, at_once: int, person: Person | None = None
    ) -> Self:
        assert judge == "the judge"
        self.wheels, self.folder, self.at_once, self.person = wheels, folder, at_once, person
        wheels.unpacked.mkdir(exist_ok=True)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tell(self, probe: Probe) -> None:
        kept = json.loads((self.folder / "state.json").read_text())["probes"]
        assert kept[-1]["commit"] == probe.commit
        self.told.append(self.names.index(probe.commit))

    def __call__(self, name: str, expected: Sequence[str]) -> Probe:
        number = self.names.index(name)
        if len(self.tried) == self.stop_after:
            raise DownloadError("no network")
        self.tried.append(number)
        self.expected[number] = [self.names.index(each) for each in expected]
        verdict = Verdict.BAD if number >= GUILTY else Verdict.GOOD
        return Probe(commit=name, verdict=verdict, reason="so it was made", seconds=1.0, wheel_from="build")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "vllm")


@pytest.fixture
def trier(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Trier:
    names = [commit(tree, "release")]
    for number in range(1, COMMITS + 1):
        (tree / "vllm" / f"m{number}.py").write_text("")
        if number == KERNEL:
            (tree / "csrc" / "cpu" / "ops.cpp").write_text("int one() { return 3; }\n")
        names.append(commit(tree, f"change {number}"))
    trier = Trier(names)
    monkeypatch.setattr(module, "Prober", trier.open)
    monkeypatch.setattr(module, "make_predicate", lambda *_: "the judge")
    return trier


Run = Callable[..., Outcome]


@pytest.fixture
def run(trier: Trier, tree: Path, tmp_path: Path, project_root: Path, reporter: Reporter) -> Run:
    def run(name: str = "x86", **options: Any) -> Outcome:
        given = {"good": trier.names[0], "bad": trier.names[-1], "run": "true", "repo": tree} | options
        paths = Paths(project_root, tmp_path / "cache", tmp_path / "dist")
        return run_bisection(paths, load_matrix(project_root), name, BisectOptions(**given), reporter)

    return run


def test_the_first_bad_commit_is_found_and_nothing_but_the_folder_is_left(
    run: Run, trier: Trier, tmp_path: Path
) -> None:
    outcome = run()
    assert outcome.found is not None
    assert outcome.found.commit == trier.names[GUILTY]
    assert outcome.folder.parent == tmp_path / "dist" / "bisect"
    assert trier.tried[0] == COMMITS
    assert 0 not in trier.tried, "its kernels are in no store, and a commit after it is good"
    assert len(trier.tried) <= 6
    assert trier.told == trier.tried
    assert sorted(path.name for path in outcome.folder.iterdir()) == [".lock", "state.json"]


def test_after_an_error_it_goes_on_where_it_was(run: Run, trier: Trier, story: io.StringIO) -> None:
    trier.stop_after = 3
    with pytest.raises(DownloadError):
        run()
    assert trier.wheels is not None
    assert not trier.wheels.unpacked.exists()
    trier.stop_after = COMMITS
    before = list(trier.tried)
    assert run().found is not None
    assert trier.tried[: len(before)] == before
    assert len(set(trier.tried)) == len(trier.tried)
    assert "going on; tested before: 3 commits" in story.getvalue()


def test_only_wheels_whose_kernels_are_in_the_store_are_made_ahead(run: Run, trier: Trier) -> None:
    """The bad end compiles the new kernels, so nothing is known of others before it was tested."""
    run()
    assert trier.expected[COMMITS] == []
    assert any(trier.expected.values())


@pytest.mark.parametrize("options", [{"run": None, "bench": "rms_norm"}, {"jobs": 2}], ids=["compared", "side by side"])
def test_a_good_end_whose_wheel_is_made_in_any_case_is_tested_first(
    run: Run, trier: Trier, options: dict[str, Any]
) -> None:
    run(**options)
    assert set(trier.tried[:2]) == {0, COMMITS}


def test_kernels_of_an_earlier_run_are_in_the_store(run: Run, trier: Trier) -> None:
    trier.stop_after = 2
    with pytest.raises(DownloadError):
        run()
    trier.stop_after = COMMITS
    trier.expected.clear()
    run()
    assert next(iter(trier.expected.values())) != []


def test_verdicts_of_a_log_are_believed(run: Run, trier: Trier, tmp_path: Path) -> None:
    run(out=tmp_path / "one")
    trier.tried.clear()
    assert run(out=tmp_path / "two", log=tmp_path / "one" / "state.json").found is not None
    assert trier.tried == [COMMITS]


def test_options_reach_what_tests_commits(run: Run, trier: Trier, tmp_path: Path) -> None:
    run(jobs=3, index="https://wheels.invalid", memory="8G", out=tmp_path / "out")
    assert trier.at_once == 3
    assert trier.wheels is not None
    assert trier.wheels._index == "https://wheels.invalid"
    assert trier.wheels._options.memory == "8G"
    assert trier.wheels.paths(trier.names[0]).dist.parent == tmp_path / "out"


def test_side_by_side_nothing_is_made_ahead(run: Run, trier: Trier) -> None:
    run(jobs=3)
    assert not any(trier.expected.values())


def test_dates_are_looked_up_on_the_branch(run: Run, trier: Trier, tree: Path) -> None:
    git_branch = tree / ".git" / "refs" / "heads" / "side"
    git_branch.write_text(f"{trier.names[-2]}\n")
    assert run(bad="2100-01-01", branch="side").state.question.bad == trier.names[-2]


def test_an_operator_that_is_asked_for_twice_is_refused_before_anything_is_done(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2 ways to test"):
        run(parity="rms_norm")
    assert not (tmp_path / "dist").exists()
    assert not (tmp_path / "cache").exists()


def test_another_machines_wheels_are_not_tested(run: Run, tmp_path: Path) -> None:
    with pytest.raises(TargetNotBuiltError, match="'arm' is run on Linux aarch64"):
        run("arm")
    assert not (tmp_path / "dist").exists()


def test_two_runs_of_one_bisection_keep_out_of_each_others_way(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with module.alone(out), pytest.raises(BisectError, match="already running"):
        run(out=out)


@pytest.mark.parametrize("changed", [True, False])
def test_changes_that_are_not_committed_are_told(run: Run, tree: Path, reporter: Reporter, *, changed: bool) -> None:
    (tree / "new").write_text("no part of the repository")
    if changed:
        (tree / "setup.py").write_text("# changed\n")
    run()
    told = [note for note in reporter.announcements if "changes that are not committed" in note]
    assert len(told) == changed


@pytest.mark.parametrize(("good", "told"), [("HEAD~12", False), ("v1.0", False), ("1.0", True)])
def test_ends_that_are_named_in_two_ways_are_told(
    run: Run, trier: Trier, tree: Path, reporter: Reporter, good: str, *, told: bool
) -> None:
    (tree / ".git" / "refs" / "tags" / "v1.0").write_text(f"{trier.names[0]}\n")
    run(good=good)
    assert any("the ends are named in two ways" in note for note in reporter.announcements) is told


def test_the_state_has_the_question(run: Run, trier: Trier) -> None:
    outcome = run(all_parents=True)
    state = json.loads((outcome.folder / "state.json").read_text())
    assert (state["question"]["good"], state["question"]["bad"]) == (trier.names[0], trier.names[-1])
    assert state["question"]["first_parent"] is False


def test_without_a_way_to_test_a_person_is_asked(run: Run, trier: Trier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_dialogue", lambda: "the dialogue")
    assert run(run=None).found is not None
    assert trier.person == Person("the dialogue", {trier.names[0]: Verdict.GOOD, trier.names[-1]: Verdict.BAD})  # type: ignore[arg-type]
    assert trier.expected[0] == [COMMITS], "wheels that have to be compiled are made ahead, too"
    assert any(len(expected) == 2 for expected in trier.expected.values())


def test_without_a_terminal_nothing_is_begun(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nobody can be asked"):
        run(run=None)
    assert not (tmp_path / "dist").exists()


def test_a_program_that_decides_asks_nobody(run: Run, trier: Trier) -> None:
    run()
    assert trier.person is None


def test_without_a_bad_end_it_is_the_newest_commit(run: Run, trier: Trier, tree: Path, reporter: Reporter) -> None:
    """Its name is not the user's, so it is nothing to tell that the good end is named in another way."""
    (tree / ".git" / "refs" / "tags" / "v1.0").write_text(f"{trier.names[0]}\n")
    outcome = run(good="1.0", bad="", branch="main")
    assert outcome.state.question.bad == trier.names[-1]
    assert reporter.announcements == []


def test_what_was_begun_goes_on_although_there_are_newer_commits(
    run: Run, trier: Trier, tree: Path, reporter: Reporter
) -> None:
    trier.stop_after = 3
    with pytest.raises(DownloadError):
        run(bad="")
    first = trier.names[-1]
    trier.stop_after = 2 * COMMITS
    trier.names.append(commit(tree, "newer"))
    outcome = run(bad="")
    assert outcome.state.question.bad == first
    (note,) = reporter.announcements
    assert f"up to {first[:9]} goes on: --bad main begins another" in note
    (outcome.folder / "result.json").write_text("{}")
    assert run(bad="").state.question.bad == trier.names[-1], "the first one has ended"


def test_an_end_that_is_given_is_no_other_bisections(run: Run, trier: Trier, tree: Path) -> None:
    trier.stop_after = 3
    with pytest.raises(DownloadError):
        run(bad="")
    trier.stop_after = 2 * COMMITS
    trier.names.append(commit(tree, "newer"))
    assert run(bad="main").state.question.bad == trier.names[-1]
