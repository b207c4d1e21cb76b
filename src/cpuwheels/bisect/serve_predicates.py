"""The verdict of a server: its answers against transformers', and its speed against the good end's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpuwheels.bisect.kernel_predicates import other_file, speed_verdict
from cpuwheels.bisect.predicates import SKIP, Judgement, nothing
from cpuwheels.bisect.search import Verdict
from cpuwheels.config.options import FEWEST_ROUNDS
from cpuwheels.config.serving_options import ServeBenchOptions, ServeOptions
from cpuwheels.pipeline import serve_bench, serve_script, serve_wheel
from cpuwheels.verification.benchmark.ratio import Ratio
from cpuwheels.verification.serving.models import MADE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import Regress
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.pipeline.user_places import UserPlaces
    from cpuwheels.verification.serving.result import Served

ROUNDS = (FEWEST_ROUNDS, 3 * FEWEST_ROUNDS, 9 * FEWEST_ROUNDS)
"""Starts of both servers before a verdict on speed: three times as many each time there is none yet."""

SIZED = "qwen3-100m"
"""The model that is timed in place of one that is made on the spot: those are too small to tell a kernel's speed."""


_NOTHING = "nothing was answered"

_ANSWERS_MATTER = ("error", "wrong-token")
_FAILURES_MATTER = ("error", "crash")
"""Changes to which a wrong answer, or a server that fails, belongs."""


@dataclass(frozen=True)
class ServePredicate:
    """A server with the wheel.

    Attributes:
        model: A model that is made on the spot, or a model's folder.
        slower: The multiple of the good end's time from which it is too slow; None if the answers alone decide.
        good: Returns the good end's wheel.
        paths: Returns the folders for a commit's run.
        matrix: The configuration.
        target: Target id.
        regress: Which change is looked for; with that to an error any fault is bad.
    """

    model: str
    slower: float | None
    good: Callable[[Reporter], Path]
    paths: Callable[[str], Paths]
    matrix: Matrix
    target: str
    regress: Regress = "error"

    def __call__(
        self, wheel: Path, commit: str, folder: Path, reporter: Reporter, waiting: Callable[[], None] = nothing
    ) -> Judgement:
        """Serve the model: a wrong token, a server that does not start, dies or does not end, or a slowdown is bad.

        If one of these is looked for, the others are not bad; without answers there is no verdict on answers or speed.

        Raises:
            CpuwheelsError: Any stage's own error.
        """
        if self.slower is None:
            waiting()
        options = ServeOptions(models=(self.model,))
        served, _ = serve_wheel.serve_wheel(self.paths(commit), self.matrix, self.target, wheel, options, reporter)
        if lacking := [name for case in served.cases for name in case.absent]:
            return Judgement(Verdict.SKIP, f"the wheel has no {', '.join(dict.fromkeys(lacking))}")
        if found := self._faulty(served):
            return found
        count = sum(len(case.answers) for case in served.cases)
        answers = f"{count} answers{' are right' if self.regress in _ANSWERS_MATTER else ', right or not'}"
        if self.slower is None:
            return Judgement(Verdict.GOOD, answers)
        speed = self._compare(wheel, commit, folder, reporter, self.slower)
        return Judgement(speed.verdict, f"{answers}, {speed.reason}")

    def _faulty(self, served: Served) -> Judgement | None:
        """Return the verdict on a server that has not answered, or has answered wrongly; None if it is not bad."""
        failed = [case for case in served.cases if case.verdict == "failed"]
        failures = [f"{case.name}: {case.failure or _NOTHING}" for case in failed]
        if failures or not served.cases:
            fault = self.regress in _FAILURES_MATTER
            return Judgement(Verdict.BAD if fault else Verdict.SKIP, failures[0] if failures else _NOTHING)
        wrong = [f"{case.name}: {problem}" for case in served.cases for problem in case.problems]
        if wrong and self.regress in _ANSWERS_MATTER:
            return Judgement(Verdict.BAD, wrong[0])
        return None

    def _compare(self, wheel: Path, commit: str, folder: Path, reporter: Reporter, slower: float) -> Judgement:
        """Load both servers in turn, with more rounds as long as there is no verdict on every load.

        The good end itself is compared with a copy of itself.
        """
        against = other_file(self.good(reporter), wheel, folder)
        said, timed = "", SIZED if self.model in MADE else self.model
        for rounds in ROUNDS:
            options = ServeBenchOptions(against=str(against), models=(timed,), rounds=rounds)
            result = serve_bench.serve_bench(
                self.paths(commit), self.matrix, self.target, str(wheel), options, reporter
            )
            speeds = [load.tokens_per_second for load in result.loads]
            verdicts = {speed_verdict(Ratio(one.ratio, one.low, one.high), slower) for one in speeds}
            slowest = min(speeds, key=lambda one: one.ratio)
            said = (
                f"{1 / slowest.ratio:.3f} times as long for a token as the good end "
                f"({1 / slowest.high:.3f} to {1 / slowest.low:.3f}, {rounds} rounds)"
            )
            if Verdict.BAD in verdicts:
                return Judgement(Verdict.BAD, said)
            if None not in verdicts:
                return Judgement(Verdict.GOOD, said)
        return Judgement(Verdict.SKIP, f"{said}: too close to {slower:g} to tell")


@dataclass(frozen=True)
class ScriptPredicate:
    """A script that asks a server with the wheel.

    Attributes:
        script: The script.
        limit: Seconds after which it is ended; the wheel then counts as bad. None for no limit.
        paths: Returns the folders for a commit's run.
        matrix: The configuration.
        target: Target id.
        env: Variables that the script gets besides.
        places: What of the user's files it sees; only the working folder and the script if not given.
        regress: Which change is looked for: that to an error, or to a crash.
    """

    script: Path
    limit: float | None
    paths: Callable[[str], Paths]
    matrix: Matrix
    target: str
    env: Mapping[str, str] = field(default_factory=dict)
    places: UserPlaces | None = None
    regress: Regress = "error"

    def __call__(
        self, wheel: Path, commit: str, folder: Path, reporter: Reporter, waiting: Callable[[], None] = nothing
    ) -> Judgement:
        """Run it: exit status 0 is good, 125 is skip; any other, a crash, and a server that fails are bad.

        If a crash is looked for, any other exit status is good.

        Raises:
            CpuwheelsError: Any stage's own error.
        """
        del folder  # the run has a log folder of its own
        waiting()
        paths = self.paths(commit)
        question = serve_script.ScriptRequest(self.script, self.limit, self.env, self.places)
        found = serve_script.serve_script(paths, self.matrix, self.target, wheel, question, reporter)
        if found.failure:
            untold = found.late and self.regress == "crash"
            return Judgement(Verdict.SKIP if untold else Verdict.BAD, found.failure)
        status = found.status or 0
        said = ": ".join(filter(None, (f"exit status {status}", found.last)))
        fails = Verdict.GOOD if self.regress == "crash" and status > 0 else Verdict.BAD
        return Judgement({0: Verdict.GOOD, SKIP: Verdict.SKIP}.get(status, fails), said)
