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
from cpuwheels.bisect.command_environment import command_environment, named_variables
from cpuwheels.bisect.command_sandbox import TEMPORARY, user_places
from cpuwheels.bisect.kernel_predicates import ParityPredicate, SpeedPredicate
from cpuwheels.bisect.predicates import CommandPredicate, Installed, Judgement
from cpuwheels.bisect.prefetch import Prefetch
from cpuwheels.bisect.probe_log import probe_story
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
from cpuwheels.pipeline.test_environment import hold_onednn_back, this_cpu
from cpuwheels.verification.onednn_isa import needed_variables
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.bisect.predicates import Predicate
    from cpuwheels.bisect.state import Question
    from cpuwheels.bisect.wheels import Got, Wheels
    from cpuwheels.config.matrix import Target
    from cpuwheels.config.options import BisectOptions
    from cpuwheels.core.console import Reporter


class Prober:
    """Tests a commit: gets its wheel and asks the predicate for a verdict.

    A context: wheels made in advance end with it.
    """

    def __init__(self, wheels: Wheels, judge: Predicate, folder: Path, reporter: Reporter, *, at_once: int) -> None:
        self._wheels, self._judge = wheels, judge
        self._folder, self._reporter = folder, reporter
        # Only one at a time can have a live view.
        self._console = (
            reporter.console
            if at_once == 1
            else Console(stderr=True, force_terminal=False, soft_wrap=True, quiet=is_quiet())
        )
        self._announced: set[str] = set()
        self._ahead = Prefetch(self._get_ahead)

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
                got = self._wheels.get(commit, reporter)
                judgement = self._judge(got.path, commit, folder, reporter, partial(self._ahead.begin, expected))
            except UNBUILDABLE as error:
                reporter.info(f"error: {error}")
                judgement = Judgement(Verdict.SKIP, f"no wheel: {error.what}")
            finally:
                remove_tree(folder / "venv")
                remove_tree(folder / TEMPORARY)
        probe = Probe(
            commit=commit,
            verdict=judgement.verdict,
            reason=judgement.reason,
            seconds=time.monotonic() - began,
            wheel_from=got.wheel_from if got else "none",
            wheel=got.path.name if got else "",
            sha256=got.sha256 if got else "",
            log=folder.relative_to(self._folder).as_posix(),
        )
        self._reporter.info(
            f"{commit[:9]} is {probe.verdict}: {probe.reason} ({clock(probe.seconds)}, wheel: {probe.wheel_from})"
        )
        return probe

    def _get_ahead(self, commit: str) -> None:
        folder = self._wheels.paths(commit).dist
        with probe_story(self._name(commit), self._console, folder, self._announced, live=False) as reporter:
            self._wheels.get(commit, reporter)

    def _name(self, commit: str) -> str:
        return f"{self._reporter.target} {commit[:9]}"


def make_predicate(target: Target, question: Question, options: BisectOptions, wheels: Wheels) -> Predicate:
    """Return what decides whether a wheel is good.

    Args:
        target: What is built.
        question: What is asked.
        options: What the user chose.
        wheels: Gets the good end's wheel for a speed comparison.
    """
    matrix = wheels.matrix

    def good(reporter: Reporter) -> Path:
        return wheels.get(question.good, reporter).path

    if options.serve and Path(options.serve).is_file():
        script = Path(options.serve).resolve()
        handed_out = named_variables(os.environ, options.env)
        places = user_places(options, Path.cwd())
        return ScriptPredicate(script, options.timeout, wheels.paths, matrix, target.id, handed_out, places)
    if options.serve:
        return ServePredicate(options.serve, options.slower, good, wheels.paths, matrix, target.id)
    if options.parity:
        return ParityPredicate(options.parity, options.level, wheels.paths, matrix, target.id)
    if options.bench:
        return SpeedPredicate(
            options.bench, options.slower or SLOWER, options.library, good, wheels.paths, matrix, target.id
        )

    places = user_places(options, Path.cwd())

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

    inherited = command_environment(os.environ, options.env)
    return CommandPredicate(options.run or "", options.timeout, install, inherited, Path.cwd())
