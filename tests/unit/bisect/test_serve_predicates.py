"""The verdict of a server's answers, and of its speed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.bisect.predicates import Judgement
from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.serve_predicates import ROUNDS, SIZED, ScriptPredicate, ServePredicate
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import Regress
from cpuwheels.config.paths import Paths
from cpuwheels.config.serving_options import ServeBenchOptions, ServeOptions
from cpuwheels.core.console import Reporter
from cpuwheels.pipeline.serve_script import ScriptRequest, ScriptResult
from cpuwheels.verification.benchmark.ratio import Ratio
from sample_results import answered, serving

COMMIT = "c" * 40


class Servers:
    """Stands for servers: notes what they were asked for, and gives results in turn."""

    def __init__(self, folder: Path, matrix: Matrix, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.matrix, self.reporter = folder, matrix, reporter
        self.served: Any = serving(answered(right=True))
        self.speeds: list[tuple[Ratio, ...]] = []
        self.asked: list[tuple[Any, ...]] = []
        self.timed: list[tuple[Any, ...]] = []
        self.waits = 0
        self.good = folder / "good.whl"
        self.good.write_bytes(b"good")
        monkeypatch.setattr("cpuwheels.pipeline.serve_wheel.serve_wheel", self._serve)
        monkeypatch.setattr("cpuwheels.pipeline.serve_bench.serve_bench", self._time)

    def judge(
        self, model: str = "opt", slower: float | None = None, wheel: str = "a.whl", regress: Regress = "error"
    ) -> Judgement:
        predicate = ServePredicate(
            model,
            slower,
            lambda _: self.good,
            lambda _: Paths(self.folder, self.folder, self.folder),
            self.matrix,
            "x86",
            regress,
        )
        return predicate(self.folder / wheel, COMMIT, self.folder / "probe", self.reporter, self._wait)

    def _wait(self) -> None:
        self.waits += 1

    def _serve(self, *arguments: Any) -> tuple[Any, Path]:
        self.asked.append(arguments[2:5])
        return self.served, self.folder

    def _time(self, *arguments: Any) -> Any:
        self.timed.append(arguments[2:5])
        ratios = self.speeds.pop(0)
        compared = [SimpleNamespace(ratio=one.value, low=one.low, high=one.high) for one in ratios]
        return SimpleNamespace(loads=[SimpleNamespace(tokens_per_second=one) for one in compared])


@pytest.fixture
def servers(tmp_path: Path, project_root: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> Servers:
    return Servers(tmp_path, load_matrix(project_root), reporter, monkeypatch)


def test_right_answers_are_good(servers: Servers) -> None:
    assert servers.judge("opt") == Judgement(Verdict.GOOD, "1 answers are right")
    assert servers.asked == [("x86", servers.folder / "a.whl", ServeOptions(models=("opt",)))]
    assert (servers.waits, servers.timed) == (1, [])


def test_a_wrong_token_is_bad(servers: Servers) -> None:
    servers.served = serving(answered(right=True), answered(right=False))
    found = servers.judge()
    assert found.verdict is Verdict.BAD
    assert "token 3 of 3 differs from transformers'" in found.reason


def test_a_server_that_fails_is_bad(servers: Servers) -> None:
    servers.served = serving(answered(right=True, failure="the server died"))
    assert servers.judge() == Judgement(Verdict.BAD, "opt bfloat16 _C: the server died")


def test_no_answer_is_not_good(servers: Servers) -> None:
    servers.served = serving()
    assert servers.judge() == Judgement(Verdict.BAD, "nothing was answered")


def test_a_wheel_without_the_operators_is_skipped(servers: Servers) -> None:
    servers.served = serving(answered(right=True, absent=("gptq_gemm",)))
    assert servers.judge("awq") == Judgement(Verdict.SKIP, "the wheel has no gptq_gemm")


def test_wrong_answers_are_not_timed(servers: Servers) -> None:
    servers.served = serving(answered(right=False))
    assert servers.judge(slower=1.2).verdict is Verdict.BAD
    assert servers.timed == []


def test_a_slowdown_under_one_load_is_bad(servers: Servers) -> None:
    servers.speeds = [(Ratio(1.0, 0.9, 1.1), Ratio(0.5, 0.4, 0.6))]
    found = servers.judge(slower=1.2)
    assert found.verdict is Verdict.BAD
    assert found.reason == (
        "1 answers are right, 2.000 times as long for a token as the good end (1.667 to 2.500, 6 rounds)"
    )
    expected = ServeBenchOptions(against=str(servers.good), models=(SIZED,), rounds=ROUNDS[0])
    assert servers.timed == [("x86", str(servers.folder / "a.whl"), expected)]
    assert servers.waits == 0  # nothing else may run


def test_a_folder_s_model_is_timed_itself(servers: Servers) -> None:
    servers.speeds = [(Ratio(1.0, 0.9, 1.1),)]
    assert servers.judge("models/own", slower=1.2).verdict is Verdict.GOOD
    assert servers.timed[0][2].models == ("models/own",)


def test_rounds_are_added_until_there_is_a_verdict(servers: Servers) -> None:
    open_, good = Ratio(0.8, 0.7, 0.9), Ratio(1.0, 0.9, 1.1)
    servers.speeds = [(open_, good), (good, good)]
    assert servers.judge(slower=1.2).verdict is Verdict.GOOD
    assert [options.rounds for *_, options in servers.timed] == list(ROUNDS[:2])
    servers.speeds = [(open_,)] * 3
    found = servers.judge(slower=1.2)
    assert found.verdict is Verdict.SKIP
    assert found.reason.endswith("54 rounds): too close to 1.2 to tell")


def test_the_good_end_is_timed_against_a_copy(servers: Servers) -> None:
    servers.speeds = [(Ratio(1.0, 0.9, 1.1),)]
    servers.judge(slower=1.2, wheel="good.whl")
    against = Path(servers.timed[0][2].against)
    assert (against, against.read_bytes()) == (servers.folder / "probe" / "copy" / "good.whl", b"good")


@pytest.mark.parametrize(
    ("result", "judgement"),
    [
        (ScriptResult(0, "", "all right"), Judgement(Verdict.GOOD, "exit status 0: all right")),
        (ScriptResult(125, "", ""), Judgement(Verdict.SKIP, "exit status 125")),
        (ScriptResult(1, "", "wrong"), Judgement(Verdict.BAD, "exit status 1: wrong")),
        (ScriptResult(-11, "", ""), Judgement(Verdict.BAD, "exit status -11")),
        (ScriptResult(None, "no end within 5 s", "", late=True), Judgement(Verdict.BAD, "no end within 5 s")),
        (ScriptResult(0, "the server died", ""), Judgement(Verdict.BAD, "the server died")),
    ],
)
def test_a_script_decides_by_its_status(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, result: ScriptResult, judgement: Judgement
) -> None:
    asked = []
    monkeypatch.setattr("cpuwheels.pipeline.serve_script.serve_script", lambda *given: asked.append(given) or result)
    paths = Paths(servers.folder, servers.folder, servers.folder)
    predicate = ScriptPredicate(Path("ask.py"), 5.0, lambda _: paths, servers.matrix, "x86", {"A": "1"})
    wheel, waits = servers.folder / "a.whl", []
    assert predicate(wheel, COMMIT, servers.folder, servers.reporter, lambda: waits.append(1)) == judgement
    assert asked == [
        (paths, servers.matrix, "x86", wheel, ScriptRequest(Path("ask.py"), 5.0, {"A": "1"}), servers.reporter)
    ]
    assert waits == [1]


@pytest.mark.parametrize(
    ("right", "failure", "verdicts"),
    [
        (True, "", {"error": "good", "crash": "good", "wrong-token": "good", "slow": "good"}),
        (False, "", {"error": "bad", "crash": "good", "wrong-token": "bad", "slow": "good"}),
        (True, "the server died", {"error": "bad", "crash": "bad", "wrong-token": "skip", "slow": "skip"}),
    ],
)
@pytest.mark.parametrize("regress", ["error", "crash", "wrong-token", "slow"])
def test_only_the_change_that_is_looked_for_is_bad(
    servers: Servers, right: bool, failure: str, verdicts: dict[str, str], regress: Regress
) -> None:
    servers.served = serving(answered(right=right, failure=failure))
    servers.speeds = [(Ratio(1.0, 0.9, 1.1),)]
    found = servers.judge(slower=1.2 if regress == "slow" else None, regress=regress)
    assert found.verdict == verdicts[regress]
    assert ("answers are right" in found.reason) == (found.verdict == "good" and regress in {"error", "wrong-token"})


def test_nothing_answered_is_no_wrong_token(servers: Servers) -> None:
    servers.served = serving()
    assert servers.judge(regress="wrong-token") == Judgement(Verdict.SKIP, "nothing was answered")
    assert servers.judge(regress="crash") == Judgement(Verdict.BAD, "nothing was answered")


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (ScriptResult(0, "", ""), "good"),
        (ScriptResult(125, "", ""), "skip"),
        (ScriptResult(1, "", "wrong"), "good"),
        (ScriptResult(-11, "", ""), "bad"),
        (ScriptResult(None, "no end within 5 s", "", late=True), "skip"),
        (ScriptResult(0, "the server died", ""), "bad"),
    ],
)
def test_a_script_can_look_for_a_crash(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, result: ScriptResult, verdict: str
) -> None:
    monkeypatch.setattr("cpuwheels.pipeline.serve_script.serve_script", lambda *_: result)
    paths = Paths(servers.folder, servers.folder, servers.folder)
    predicate = ScriptPredicate(Path("ask.py"), 5.0, lambda _: paths, servers.matrix, "x86", regress="crash")
    assert predicate(servers.folder / "a.whl", COMMIT, servers.folder, servers.reporter).verdict == verdict
