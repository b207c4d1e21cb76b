"""The verdict of an operator's results, and of its speed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.bisect.kernel_predicates import ROUNDS, ParityPredicate, SpeedPredicate, speed_verdict
from cpuwheels.bisect.predicates import Judgement
from cpuwheels.bisect.search import Verdict
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import ParityOptions, SpeedOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CompileError, CpuwheelsError, UsageError
from cpuwheels.verification.benchmark.ratio import Ratio
from cpuwheels.verification.parity.results import LibraryResult
from sample_results import case, library, parity

COMMIT = "c" * 40


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


@pytest.fixture
def places(tmp_path: Path) -> Callable[[str], Paths]:
    return lambda commit: Paths(tmp_path, tmp_path / "cache", tmp_path / commit[:12])


class Runs:
    """Stands for tests of a wheel: notes what they were asked, and gives answers in turn."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> object:
        self.asked.append(arguments)
        answer = self.answers.pop(0)
        if isinstance(answer, CpuwheelsError):
            raise answer
        return answer


Results = Callable[..., tuple[Judgement, Runs]]


@pytest.fixture
def results(matrix: Matrix, places: Callable[[str], Paths], reporter: Reporter, monkeypatch, tmp_path) -> Results:
    """Returns the judgement on results of parity, and what was asked."""

    def judge(answer: object, waiting: Callable[[], None] = lambda: None) -> tuple[Judgement, Runs]:
        runs = Runs(answer)
        monkeypatch.setattr("cpuwheels.pipeline.test_wheel.check_wheel", runs)
        predicate = ParityPredicate("rms_norm", "full", places, matrix, "x86")
        return predicate(tmp_path / "a.whl", COMMIT, tmp_path, reporter, waiting), runs

    return judge


def test_only_the_operator_is_tested_and_on_this_cpu_alone(results: Results, tmp_path: Path) -> None:
    waits: list[bool] = []
    judgement, runs = results(parity(library("_C", case("rms_norm[1]"))), lambda: waits.append(True))
    assert judgement == Judgement(Verdict.GOOD, "1 cases are right")
    ((paths, _, name, wheel, options, _),) = runs.asked
    assert (paths.dist, name, wheel) == (tmp_path / COMMIT[:12], "x86", tmp_path / "a.whl")
    assert options == ParityOptions(wheel=wheel, level="full", operators=("rms_norm",), emulation=False)
    assert waits == [True]


@pytest.mark.parametrize(
    ("libraries", "reason"),
    [
        (
            [library("_C", case("rms_norm[1]"), case("rms_norm[2]", problem="out is wrong"))],
            "1 of 2 cases are wrong: out is wrong",
        ),
        ([library("_C", untested=("rms_norm",))], "0 of 0 cases are wrong: it has no case"),
        ([], "0 of 0 cases are wrong: it has no case"),
    ],
)
def test_what_is_wrong_or_was_not_tested_is_bad(results: Results, libraries: list[LibraryResult], reason: str) -> None:
    assert results(parity(*libraries))[0] == Judgement(Verdict.BAD, reason)


def test_a_known_fault_is_no_verdict_against_it(results: Results) -> None:
    known = case("rms_norm[1]", problem="as upstream has it", known="a finding")
    assert results(parity(library("_C", known)))[0].verdict is Verdict.GOOD


def test_a_wheel_without_the_operator_is_skipped(results: Results) -> None:
    assert results(UsageError("no operator rms_norm"))[0] == Judgement(Verdict.SKIP, "no operator rms_norm")


def test_any_other_error_is_no_verdict(results: Results) -> None:
    with pytest.raises(CompileError):
        results(CompileError("the moon"))


Speeds = Callable[..., tuple[Judgement, Runs]]


@pytest.fixture
def speeds(matrix: Matrix, places: Callable[[str], Paths], reporter: Reporter, monkeypatch, tmp_path) -> Speeds:
    """Returns the judgement on comparisons of speed, each a ratio or an error, and what was asked."""
    good = tmp_path / "good.whl"
    good.write_bytes(b"good")

    def judge(*answers: object, wheel: str = "a.whl") -> tuple[Judgement, Runs]:
        found = (
            SimpleNamespace(speeds=(SimpleNamespace(ratio=one),)) if isinstance(one, Ratio) else one for one in answers
        )
        runs = Runs(*found)
        monkeypatch.setattr("cpuwheels.pipeline.test_wheel.compare_speed", runs)
        predicate = SpeedPredicate("rms_norm", 1.2, "_C_AVX2", lambda _: good, places, matrix, "x86")
        return predicate(tmp_path / wheel, COMMIT, tmp_path / "probe", reporter), runs

    return judge


def test_it_is_timed_against_the_good_end(speeds: Speeds, tmp_path: Path) -> None:
    judgement, runs = speeds(Ratio(1.0, 0.9, 1.1))
    assert judgement.verdict is Verdict.GOOD
    assert judgement.reason == "1.000 times as long as the good end (0.909 to 1.111, 9 rounds)"
    ((paths, _, name, wheel, options, _),) = runs.asked
    assert (paths.dist, name, wheel) == (tmp_path / COMMIT[:12], "x86", tmp_path / "a.whl")
    expected = SpeedOptions(against=tmp_path / "good.whl", library="_C_AVX2", operators=("rms_norm",), rounds=9)
    assert options == expected


def test_the_good_end_is_timed_against_a_copy(speeds: Speeds, tmp_path: Path) -> None:
    _, runs = speeds(Ratio(1.0, 0.9, 1.1), wheel="good.whl")
    against = runs.asked[0][4].against
    assert against == tmp_path / "probe" / "copy" / "good.whl"
    assert against.read_bytes() == b"good"


def test_rounds_are_added_until_there_is_a_verdict(speeds: Speeds) -> None:
    judgement, runs = speeds(Ratio(0.8, 0.7, 0.9), Ratio(0.7, 0.6, 0.75))
    assert judgement.verdict is Verdict.BAD
    assert judgement.reason.endswith("27 rounds)")
    assert [asked[4].rounds for asked in runs.asked] == [9, 27]


def test_what_stays_open_is_skipped(speeds: Speeds) -> None:
    judgement, runs = speeds(*[Ratio(0.8, 0.7, 0.9)] * 3)
    assert judgement.verdict is Verdict.SKIP
    assert judgement.reason.endswith("81 rounds): too close to 1.2 to tell")
    assert tuple(asked[4].rounds for asked in runs.asked) == ROUNDS


def test_what_cannot_be_timed_is_skipped(speeds: Speeds) -> None:
    assert speeds(UsageError("nothing to compare"))[0] == Judgement(Verdict.SKIP, "nothing to compare")


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.98, 1.02, "good"),
        (0.60, 0.70, "bad"),
        (0.80, 0.9, None),
        (0.70, 0.90, None),
        (1.5, 2.0, "good"),
        (0.90, 1.1, "good"),
        (0.5, 1 / 1.2, "bad"),
    ],
)
def test_a_speed_is_judged_by_its_whole_interval(low: float, high: float, verdict: str | None) -> None:
    found = speed_verdict(Ratio((low + high) / 2, low, high), 1.2)
    assert found is (None if verdict is None else Verdict(verdict))
