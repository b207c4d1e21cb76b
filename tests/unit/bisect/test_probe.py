"""One commit's test: its wheel, its verdict, and what is left behind."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.bisect import probe as module
from cpuwheels.bisect.kernel_predicates import ParityPredicate, SpeedPredicate
from cpuwheels.bisect.person import Person, PersonPredicate
from cpuwheels.bisect.predicates import CommandPredicate, Judgement, Predicate, nothing
from cpuwheels.bisect.probe import Prober, make_predicate
from cpuwheels.bisect.prompt_predicate import PromptPredicate
from cpuwheels.bisect.regress import Inverted
from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.serve_predicates import ScriptPredicate, ServePredicate
from cpuwheels.bisect.state import Question
from cpuwheels.bisect.wheels import Wheels
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BisectOptions, BuildOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CompileError, DownloadError
from cpuwheels.core.process import run
from cpuwheels.core.store import Store
from cpuwheels.pipeline.user_places import UserPlaces
from fake_builds import Builds

COMMIT, OTHER, LAST = "c" * 40, "d" * 40, "e" * 40
QUESTION = Question(target="x86", good=OTHER, bad=LAST, first_parent=True, repository="here", judge={})


@pytest.fixture
def wheels(builds: Builds, tmp_path: Path, project_root: Path, store: Store) -> Wheels:
    assert builds.asked == []
    matrix = load_matrix(project_root)
    return Wheels(project_root, store, tmp_path / "out", matrix, matrix.target("x86"), BuildOptions())


def good(
    wheel: Path, commit: str, folder: Path, reporter: Reporter, _waiting: Callable[[], None] = nothing
) -> Judgement:
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "kept").write_text(f"{wheel.name} of {commit}")
    reporter.announce("something new")
    return Judgement(Verdict.GOOD, "because")


Probes = Callable[..., Prober]


@pytest.fixture
def prober(wheels: Wheels, reporter: Reporter, tmp_path: Path) -> Probes:
    def make(judge: Predicate = good, at_once: int = 1, person: Person | None = None) -> Prober:
        return Prober(wheels, judge, tmp_path / "out", reporter, at_once=at_once, person=person)

    return make


def test_a_probe_says_what_was_found_and_of_which_wheel(prober: Probes, story: io.StringIO, tmp_path: Path) -> None:
    with prober() as trier:
        probe = trier(COMMIT)
        assert "is good" not in story.getvalue()  # it is kept first
        trier.tell(probe)
    assert probe.seconds > 0
    assert probe.model_dump(exclude={"seconds"}) == {
        "commit": COMMIT,
        "verdict": "good",
        "reason": "because",
        "wheel_from": "build",
        "wheel": "a.whl",
        "sha256": "0" * 64,
        "log": COMMIT[:12],
    }
    assert "ccccccccc is good: because (" in story.getvalue()
    assert sorted(path.name for path in (tmp_path / "out" / COMMIT[:12]).iterdir()) == ["kept", "probe.log"]


def test_a_commit_without_a_wheel_is_skipped(prober: Probes, builds: Builds, tmp_path: Path) -> None:
    builds.error = lambda _: CompileError("ops.cpp.o could not be made")
    with prober() as trier:
        probe = trier(COMMIT)
    assert (probe.verdict, probe.reason) == (Verdict.SKIP, "no wheel: ops.cpp.o could not be made")
    assert (probe.wheel_from, probe.wheel, probe.sha256) == ("none", "", "")
    assert "error: ops.cpp.o could not be made" in (tmp_path / "out" / COMMIT[:12] / "probe.log").read_text()


@pytest.mark.parametrize("error", [DownloadError("no network"), KeyboardInterrupt()])
def test_what_is_not_about_the_commit_stops_the_search(prober: Probes, tmp_path: Path, error: BaseException) -> None:
    def judge(_wheel: Path, _commit: str, folder: Path, *_: object) -> Judgement:
        (folder / "venv").mkdir()
        raise error

    with prober(judge) as trier, pytest.raises(type(error)):
        trier(COMMIT)
    assert not (tmp_path / "out" / COMMIT[:12] / "venv").exists()


def test_the_next_wheels_are_made_while_a_command_runs(prober: Probes, builds: Builds) -> None:
    made = threading.Event()
    builds.error = lambda options: made.set() if options.source == OTHER else None

    def judge(_wheel: Path, commit: str, _folder: Path, _reporter: Reporter, waiting: Callable[[], None]) -> Judgement:
        if commit == COMMIT:
            assert builds.sources == [COMMIT]
            waiting()
            assert made.wait(20)
        return Judgement(Verdict.GOOD, "because")

    with prober(judge) as trier:
        trier(COMMIT, [OTHER])
        assert trier(OTHER).wheel_from == "build"
    assert builds.sources == [COMMIT, OTHER]


def test_without_a_wait_nothing_is_made_ahead(prober: Probes, builds: Builds) -> None:
    with prober() as trier:
        trier(COMMIT, [OTHER])
    assert builds.sources == [COMMIT]


@pytest.mark.parametrize("at_once", [1, 2])
def test_side_by_side_no_probe_writes_to_the_terminal_with_the_live_line(
    prober: Probes, story: io.StringIO, capsys: pytest.CaptureFixture[str], at_once: int
) -> None:
    with prober(at_once=at_once) as trier:
        trier(COMMIT)
    assert ("NOTE something new" in story.getvalue()) == (at_once == 1)
    assert ("NOTE something new" in capsys.readouterr().err) == (at_once == 2)


def predicate(wheels: Wheels, **options: Any) -> Predicate:
    target = wheels.matrix.target("x86")
    return make_predicate(target, QUESTION, BisectOptions(good="a", bad="b", **options), wheels)


def test_an_operator_decides(wheels: Wheels) -> None:
    found = predicate(wheels, parity="rms_norm", level="deep")
    assert found == ParityPredicate("rms_norm", "deep", wheels.paths, wheels.matrix, "x86")


def test_a_speed_is_compared_with_the_good_ends(wheels: Wheels, builds: Builds, reporter: Reporter) -> None:
    found = predicate(wheels, bench="rms_norm", slower=1.5, library="_C_AVX2")
    assert isinstance(found, SpeedPredicate)
    assert (found.operator, found.slower, found.library, found.target) == ("rms_norm", 1.5, "_C_AVX2", "x86")
    assert found.good(reporter) == wheels.paths(OTHER).dist / "a.whl"
    assert builds.sources == [OTHER]


def test_a_server_decides(wheels: Wheels, builds: Builds, reporter: Reporter) -> None:
    found = predicate(wheels, serve="opt", slower=1.5)
    assert isinstance(found, ServePredicate)
    assert (found.model, found.slower, found.target) == ("opt", 1.5, "x86")
    assert found.good(reporter) == wheels.paths(OTHER).dist / "a.whl"
    assert builds.sources == [OTHER]


def test_a_script_decides(wheels: Wheels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "ask.py"
    script.touch()
    monkeypatch.setenv("MINE", "1")
    found = predicate(wheels, serve=str(script), timeout=5.0, env=("MINE",))
    places = UserPlaces(Path.cwd(), (script,))
    assert found == ScriptPredicate(script, 5.0, wheels.paths, wheels.matrix, "x86", {"MINE": "1"}, places)


@pytest.mark.parametrize("requirements", [True, False])
@pytest.mark.parametrize("foreign", [True, False])
def test_a_command_gets_an_environment_of_its_own(
    wheels: Wheels,
    reporter: Reporter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    requirements: bool,
    foreign: bool,
) -> None:
    done: list[tuple[object, ...]] = []
    limit = SimpleNamespace(environment=lambda: {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"})

    def complete(environment: object, wheel: Path, folder: Path, _logs: Path, cache: Path, *, sdists: bool) -> Path:
        done.append(("complete", environment, wheel.name, folder, cache, sdists))
        return folder / "bin" / "python"

    def layered(environment: object, folder: Path, _logs: Path) -> Path:
        done.append(("layered", environment, folder))
        return folder / "bin" / "python"

    def install(wheel: Path, python: Path, lock: Path | None, _logs: Path, cache: Path) -> None:
        done.append(("install", wheel.name, python, lock, cache))

    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setattr(module, "read_wheel", lambda *_: SimpleNamespace(torch="2.13.0"))
    monkeypatch.setattr(module, "refuse_startup_code", lambda wheel: looked.append((wheel.name, list(done))))
    looked: list[tuple[str, list[object]]] = []
    built = SimpleNamespace(python=tmp_path / "built" / "bin" / "python", debian=None, places=[])
    monkeypatch.setattr(module, "torch_environment", lambda _, torch: built if torch == "2.13.0" else None)
    monkeypatch.setattr(module, "is_foreign", lambda _: foreign)
    monkeypatch.setattr(module, "this_cpu", lambda _: None)
    monkeypatch.setattr(module, "hold_onednn_back", lambda *_: limit)
    monkeypatch.setattr(module, "complete_environment", complete)
    monkeypatch.setattr(module, "layered_environment", layered)
    monkeypatch.setattr(module, "install_wheel", install)
    found = predicate(wheels, run="true", timeout=5.0, requirements=requirements, allow_sdists=True, env=("MINE",))
    assert isinstance(found, CommandPredicate)
    assert (found.command, found.limit, found.cwd) == ("true", 5.0, Path.cwd())
    assert (found.environ["MINE"], found.environ["PATH"]) == ("1", os.environ["PATH"])
    assert "AWS_SECRET_ACCESS_KEY" not in found.environ
    folder = tmp_path / "out" / COMMIT[:12] / "venv"
    installed = found.install(tmp_path / "a.whl", folder, reporter)
    assert looked == [("a.whl", [])], "before anything is installed"
    python, needed = installed.python, installed.variables
    (folder / "bin").mkdir(parents=True)
    confined = installed.confine(["sh"], {})
    assert confined.env["HOME"] == str(folder.parent / "temporary" / "home")
    plan = json.loads(Path(confined.argv[confined.argv.index("--") - 1]).read_text())
    assert (plan["step"], plan["folder"]) == ("the command", str(Path.cwd()))
    assert python == folder / "bin" / "python"
    assert needed == ({} if foreign else {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"})
    cache = tmp_path / "out" / "unpacked"
    if requirements:
        assert done == [("complete", built, "a.whl", folder, cache, True)]
    else:
        assert done == [("layered", built, folder), ("install", "a.whl", python, None, cache)]
    assert list((folder.parent / "logs").glob("x86*"))


class Asked:
    """A person who is only asked about commits without a wheel."""

    def __init__(self, *answers: Judgement | None) -> None:
        self.answers = list(answers)
        self.told: list[tuple[str, str, Path]] = []

    def judge_without_wheel(self, commit: str, why: str, log: Path) -> Judgement | None:
        self.told.append((commit, why, log))
        return self.answers.pop(0)


def test_a_person_is_asked_what_to_do_about_a_commit_without_a_wheel(
    prober: Probes, builds: Builds, tmp_path: Path
) -> None:
    builds.error = lambda _: CompileError("no", log=tmp_path / "log") if len(builds.asked) < 3 else None
    asked = Asked(None, None)
    with prober(person=asked) as trier:
        assert trier(COMMIT).verdict is Verdict.GOOD
    assert asked.told == [(COMMIT, "no", tmp_path / "log")] * 2
    assert builds.sources == [COMMIT] * 3


def test_a_person_may_skip_it(prober: Probes, builds: Builds, tmp_path: Path) -> None:
    builds.error = lambda _: CompileError("no")
    asked = Asked(Judgement(Verdict.SKIP, "no wheel: no"))
    with prober(person=asked) as trier:
        probe = trier(COMMIT)
    assert (probe.verdict, probe.reason, probe.wheel_from) == (Verdict.SKIP, "no wheel: no", "none")
    assert asked.told[0][2] == tmp_path / "out" / COMMIT[:12] / "probe.log"


class Ahead:
    """Stands for processes that make wheels while a person thinks.

    Attributes:
        began: The commits whose wheels were begun.
        made: Those that were not ended before.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began: list[str] = []
        self.made: list[str] = []
        self._folder = folder
        monkeypatch.setattr(Wheels, "prepare", self._prepare)

    def _prepare(self, commit: str, _reporter: Reporter) -> None:
        self.began.append(commit)
        run(["sh", "-c", f"while ! [ -e {self._folder}/go-{commit} ]; do sleep 0.05; done"], log=self._folder / commit)
        self.made.append(commit)

    def let(self, commit: str) -> None:
        (self._folder / f"go-{commit}").touch()

    def wait_for(self, commit: str) -> None:
        end = time.monotonic() + 60
        while not (self._folder / commit).exists() and time.monotonic() < end:
            time.sleep(0.02)
        assert commit in self.began


@pytest.fixture
def ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ahead:
    folder = tmp_path / "ahead"
    folder.mkdir()
    return Ahead(folder, monkeypatch)


def test_while_a_person_thinks_other_processes_make_the_next_wheels(
    prober: Probes, ahead: Ahead, builds: Builds, story: io.StringIO, tmp_path: Path
) -> None:
    """The one that is needed is waited for; the other one is not begun any more."""

    def judge(_wheel: Path, commit: str, _folder: Path, _reporter: Reporter, waiting: Callable[[], None]) -> Judgement:
        if commit == COMMIT:
            waiting()
            ahead.wait_for(OTHER)
            threading.Timer(0.3, ahead.let, [OTHER]).start()
        return Judgement(Verdict.GOOD, "because")

    with prober(judge, person=Asked()) as trier:
        trier(COMMIT, [OTHER, LAST])
        trier(OTHER)
    assert (ahead.began, ahead.made) == ([OTHER], [OTHER])
    assert builds.sources == [COMMIT, OTHER]
    assert "wheel: is being made already" in (tmp_path / "out" / OTHER[:12] / "probe.log").read_text()
    assert "sleep" not in story.getvalue()


def test_a_wheel_that_is_not_needed_any_more_is_ended(prober: Probes, ahead: Ahead, builds: Builds) -> None:
    def judge(_wheel: Path, commit: str, _folder: Path, _reporter: Reporter, waiting: Callable[[], None]) -> Judgement:
        if commit == COMMIT:
            waiting()
            ahead.wait_for(OTHER)
        return Judgement(Verdict.GOOD, "because")

    with prober(judge, person=Asked()) as trier:
        trier(COMMIT, [OTHER, LAST])
        trier(LAST)
    assert (ahead.began, ahead.made) == ([OTHER], [])
    assert builds.sources == [COMMIT, LAST]


def test_stopping_ends_what_is_made_ahead(prober: Probes, ahead: Ahead) -> None:
    def judge(_wheel: Path, _commit: str, _folder: Path, _reporter: Reporter, waiting: Callable[[], None]) -> Judgement:
        waiting()
        ahead.wait_for(OTHER)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), prober(judge, person=Asked()) as trier:
        trier(COMMIT, [OTHER, LAST])
    assert (ahead.began, ahead.made) == ([OTHER], [])


def test_a_person_decides(wheels: Wheels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "1")
    target, person = wheels.matrix.target("x86"), Person("dialogue", {})  # type: ignore[arg-type]
    found = make_predicate(target, QUESTION, BisectOptions(good="a", env=("MINE",)), wheels, person)
    assert isinstance(found, PersonPredicate)
    assert (found.person, found.named, found.cwd) == (person, ("MINE",), Path.cwd())
    assert found.environ["MINE"] == "1"


@pytest.mark.parametrize("regress", [None, "wrong-token"])
def test_an_answer_decides(wheels: Wheels, builds: Builds, reporter: Reporter, regress: Any) -> None:
    found = predicate(wheels, prompt="x", regress=regress)
    assert isinstance(found, PromptPredicate)
    assert (found.prompt, found.model, found.regress) == ("x", "qwen3", regress)
    assert found.good[0] == OTHER
    assert found.good[1](reporter) == wheels.paths(OTHER).dist / "a.whl"
    assert builds.sources == [OTHER]
    assert predicate(wheels, prompt="x", serve="opt").model == "opt"  # type: ignore[attr-defined]


def test_a_success_is_looked_for_by_turning_verdicts_round(wheels: Wheels) -> None:
    found = predicate(wheels, parity="rms_norm", regress="success")
    assert found == Inverted(ParityPredicate("rms_norm", "smoke", wheels.paths, wheels.matrix, "x86"))
    served = predicate(wheels, serve="opt", regress="success")
    assert isinstance(served, Inverted)
    assert served.predicate.regress == "error"  # type: ignore[attr-defined]
    assert predicate(wheels, run="true", regress="success").regress == "success"  # type: ignore[attr-defined]
    slow = predicate(wheels, serve="opt", regress="slow")
    assert isinstance(slow, ServePredicate)
    assert (slow.regress, slow.slower) == ("slow", 1.2)
