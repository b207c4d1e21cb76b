"""Testing a commit: its wheel, and the verdict on it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console

from cpuwheels.audit.installed_names import refuse_startup_code
from cpuwheels.bisect.background_build import LOG
from cpuwheels.bisect.command_environment import command_environment, named_variables
from cpuwheels.bisect.command_sandbox import TEMPORARY, user_places
from cpuwheels.bisect.kernel_predicates import ParityPredicate, SpeedPredicate
from cpuwheels.bisect.person import PersonPredicate
from cpuwheels.bisect.predicates import CommandPredicate, Installed, Judgement
from cpuwheels.bisect.prefetch import Prefetch
from cpuwheels.bisect.probe_log import LOG as PROBE_LOG
from cpuwheels.bisect.probe_log import probe_story
from cpuwheels.bisect.prompt_predicate import PromptPredicate
from cpuwheels.bisect.regress import Inverted
from cpuwheels.bisect.request import served_slower
from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.serve_predicates import ScriptPredicate, ServePredicate
from cpuwheels.bisect.state import Probe
from cpuwheels.bisect.wheels import UNBUILDABLE
from cpuwheels.config.host import is_foreign, markers
from cpuwheels.config.options import SLOWER
from cpuwheels.core.filesystem import remove_tree
from cpuwheels.core.progress import clock
from cpuwheels.core.verbosity import is_quiet
from cpuwheels.environment.test_env import complete_environment, layered_environment
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.environment.wheel_install import install_wheel
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.serve_script import MODEL as PROMPTED
from cpuwheels.pipeline.test_environment import hold_onednn_back, this_cpu
from cpuwheels.verification.onednn_isa import needed_variables
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cpuwheels.bisect.person import Person
    from cpuwheels.bisect.predicates import Predicate
    from cpuwheels.bisect.state import Question
    from cpuwheels.bisect.wheels import Got, Wheels
    from cpuwheels.config.matrix import Target
    from cpuwheels.config.options import BisectOptions, Regress
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import CpuwheelsError


_PAUSE = 0.3
"""Seconds of a command before the wheels of the next commits are begun: to make one takes 2 s at least."""


class Prober:
    """Tests a commit: gets its wheel and asks the predicate for a verdict.

    A context: wheels made in advance end with it.

    Args:
        wheels: Gets the wheels.
        judge: The predicate.
        folder: The bisection's.
        reporter: Told of each probe.
        at_once: Commits tested side by side.
        person: Who gives the verdicts, and has time to think: meanwhile wheels are made in advance by other processes,
            compiled ones too.
    """

    def __init__(
        self,
        wheels: Wheels,
        judge: Predicate,
        folder: Path,
        reporter: Reporter,
        *,
        at_once: int,
        person: Person | None = None,
    ) -> None:
        self._wheels, self._judge, self._person = wheels, judge, person
        self._folder, self._reporter = folder, reporter
        # Only one at a time can have a live view.
        self._console = (
            reporter.console
            if at_once == 1
            else Console(stderr=True, force_terminal=False, soft_wrap=True, quiet=is_quiet())
        )
        self._announced: set[str] = set()
        self._ahead = Prefetch(self._get_ahead, 0.0 if person or wheels.farm else _PAUSE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._ahead.__exit__(*raised)

    def __call__(self, commit: str, expected: Sequence[str] = ()) -> Probe:
        """Test a commit and return what was found.

        Args:
            commit: Full hash.
            expected: Commits that may be tested next; their wheels are made while this one is tested.

        Raises:
            CpuwheelsError: An error that is not about the commit.
        """
        began = time.monotonic()
        folder = self._wheels.paths(commit).dist
        got: Got | None = None
        with probe_story(self._name(commit), self._console, folder, self._announced) as reporter:
            try:
                judgement = None
                while judgement is None:
                    try:
                        got = self._get(commit, reporter)
                        judgement = self._judge(
                            got.path, commit, folder, reporter, partial(self._ahead.begin, expected)
                        )
                    except UNBUILDABLE as error:
                        reporter.info(f"error: {error}")
                        judgement = self._without_wheel(commit, error, folder)
            finally:
                remove_tree(folder / "venv")
                remove_tree(folder / TEMPORARY)
        return Probe(
            commit=commit,
            verdict=judgement.verdict,
            reason=judgement.reason,
            seconds=time.monotonic() - began,
            wheel_from=got.wheel_from if got else "none",
            wheel=got.path.name if got else "",
            sha256=got.sha256 if got else "",
            log=folder.relative_to(self._folder).as_posix(),
        )

    def tell(self, probe: Probe) -> None:
        """Print what was found; only once it is kept, so that who stops a bisection then loses nothing they read."""
        found = f"{probe.commit[:9]} is {probe.verdict}: {probe.reason}"
        self._reporter.info(f"{found} ({clock(probe.seconds)}, wheel: {probe.wheel_from})")

    def _get(self, commit: str, reporter: Reporter) -> Got:
        """Return a commit's wheel; what is made in advance and not needed any more is ended first."""
        if self._ahead.keep_only(commit) and self._person:
            with reporter.stage("wheel", f"is being made already; log: {self._wheels.paths(commit).dist / LOG}"):
                self._ahead.wait()
        return self._wheels.get(commit, reporter)

    def _without_wheel(self, commit: str, error: CpuwheelsError, folder: Path) -> Judgement | None:
        """Return the verdict on a commit whose wheel cannot be made; None if it is to be tried once more."""
        if self._person:
            return self._person.judge_without_wheel(commit, error.what, error.log or folder / PROBE_LOG)
        return Judgement(Verdict.SKIP, f"no wheel: {error.what}")

    def _get_ahead(self, commit: str) -> None:
        folder = self._wheels.paths(commit).dist
        if self._person:  # nothing is printed while they are asked; what matters is printed when the wheel is used
            silent = Console(quiet=True)
            with probe_story(self._name(commit), silent, folder, set(), live=False) as reporter:
                self._wheels.prepare(commit, reporter)
            return
        with probe_story(self._name(commit), self._console, folder, self._announced, live=False) as reporter:
            (self._wheels.prepare if self._wheels.farm else self._wheels.get)(commit, reporter)

    def _name(self, commit: str) -> str:
        return f"{self._reporter.target} {commit[:9]}"


def make_predicate(
    target: Target, question: Question, options: BisectOptions, wheels: Wheels, person: Person | None = None
) -> Predicate:
    """Return what decides whether a wheel is good.

    Args:
        target: What is built.
        question: What is asked.
        options: What the user chose.
        wheels: Gets the good end's wheel for a comparison.
        person: Who is asked, if the options leave the verdicts to a person.
    """
    predicate = _predicate(target, question, options, wheels, person)
    return Inverted(predicate) if options.regress == "success" and not (options.by_person or options.run) else predicate


def _predicate(
    target: Target, question: Question, options: BisectOptions, wheels: Wheels, person: Person | None
) -> Predicate:
    matrix = wheels.matrix

    def good(reporter: Reporter) -> Path:
        return wheels.get(question.good, reporter).path

    if options.serve or options.prompt is not None:
        return _served(target, question, options, wheels, person, good)
    if options.parity:
        return ParityPredicate(options.parity, options.level, wheels.paths, matrix, target.id)
    if options.bench:
        return SpeedPredicate(
            options.bench, options.slower or SLOWER, options.library, good, wheels.paths, matrix, target.id
        )

    install = _installer(target, question, options, wheels)
    inherited = command_environment(os.environ, options.env)
    if person:
        return PersonPredicate(person, install, inherited, options.env, Path.cwd())
    return CommandPredicate(
        options.run or "", options.timeout, install, inherited, Path.cwd(), options.regress or "error"
    )


def _served(
    target: Target,
    question: Question,
    options: BisectOptions,
    wheels: Wheels,
    person: Person | None,
    good: Callable[[Reporter], Path],
) -> Predicate:
    """Return what decides by a server with the wheel."""
    paths, matrix = wheels.paths, wheels.matrix
    served = options.serve or PROMPTED
    if options.prompt is not None:
        ends = (question.good, good)
        return PromptPredicate(options.prompt, served, ends, paths, matrix, target.id, options.regress, person)
    # What an error is to others, a success is turned round to by `Inverted`.
    regress: Regress = "error" if options.regress in {None, "success"} else options.regress
    if Path(served).is_file():
        handed_out, places = named_variables(os.environ, options.env), user_places(options, Path.cwd())
        script = Path(served).resolve()
        return ScriptPredicate(script, options.timeout, paths, matrix, target.id, handed_out, places, regress)
    return ServePredicate(served, served_slower(options), good, paths, matrix, target.id, regress)


def _installer(
    target: Target, question: Question, options: BisectOptions, wheels: Wheels
) -> Callable[[Path, Path, Reporter], Installed]:
    """Return what makes the environment of a command, or of a person, with a wheel."""
    matrix, places = wheels.matrix, user_places(options, Path.cwd())

    def install(wheel: Path, folder: Path, reporter: Reporter) -> Installed:
        paths = replace(wheels.paths(question.good), dist=folder.parent)
        context = open_context(paths, matrix, target, options.build, reporter, wheels.store)
        found = read_wheel(wheel, target, markers(target, matrix.python[0]))
        refuse_startup_code(wheel)  # one from an index was not audited here
        environment = torch_environment(context, found.torch)
        limit = None if is_foreign(target) else hold_onednn_back(reporter, this_cpu(context))
        needed = needed_variables(limit)
        if options.requirements:
            python = complete_environment(
                environment, wheel, folder, context.logs, wheels.unpacked, sdists=options.allow_sdists
            )
        else:
            python = layered_environment(environment, folder, context.logs)
            install_wheel(wheel, python, None, context.logs, wheels.unpacked)
        packages = [folder, wheel, environment.python.absolute().parent.parent, *environment.places]
        return Installed(python, needed, places.confine(context, python, packages, folder.parent / TEMPORARY))

    return install
