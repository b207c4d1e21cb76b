"""Trying a commit: its wheel, and the judge's word on it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console

from cpuwheels import run
from cpuwheels.benches import hold_onednn_back, this_cpu
from cpuwheels.bisect.ahead import Ahead
from cpuwheels.bisect.judges import CommandJudge, Judgement
from cpuwheels.bisect.kernel_judges import ParityJudge, SpeedJudge
from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.state import Probe
from cpuwheels.bisect.story import probe_story
from cpuwheels.bisect.wheels import UNBUILDABLE
from cpuwheels.console import clock
from cpuwheels.onednn_isa import needed_variables
from cpuwheels.options import BuildOptions
from cpuwheels.parity.install import install_wheel
from cpuwheels.parity.wheel import read_wheel
from cpuwheels.platforms import is_foreign, markers
from cpuwheels.runtime import complete_environment, layered_environment
from cpuwheels.storage import remove_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.bisect.judges import Judge
    from cpuwheels.bisect.state import Question
    from cpuwheels.bisect.wheels import Got, Wheels
    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import Target
    from cpuwheels.options import BisectOptions


class Trier:
    """Tries a commit: gets its wheel and lets the judge have it.

    A context: what is made ahead is ended with it.
    """

    def __init__(self, wheels: Wheels, judge: Judge, folder: Path, reporter: Reporter, *, at_once: int) -> None:
        self._wheels, self._judge = wheels, judge
        self._folder, self._reporter = folder, reporter
        # Only one at a time can have a live line.
        self._console = reporter.console if at_once == 1 else Console(stderr=True, force_terminal=False, soft_wrap=True)
        self._announced: set[str] = set()
        self._ahead = Ahead(self._get_ahead)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._ahead.__exit__(*raised)

    def __call__(self, commit: str, expected: Sequence[str] = ()) -> Probe:
        """Return what is found at a commit.

        Args:
            commit: Full hash.
            expected: Those that may be tried after it; their wheels are made while it is judged.

        Raises:
            CpuwheelsError: What says nothing of the commit.
        """
        began = time.monotonic()
        folder = self._wheels.places(commit).dist
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
        probe = Probe(
            commit=commit, verdict=judgement.verdict, reason=judgement.reason, seconds=time.monotonic() - began,
            wheel_from=got.wheel_from if got else "none", wheel=got.path.name if got else "",
            sha256=got.sha256 if got else "", log=folder.relative_to(self._folder).as_posix(),
        )  # fmt: skip
        self._reporter.info(
            f"{commit[:9]} is {probe.verdict}: {probe.reason} ({clock(probe.seconds)}, wheel: {probe.wheel_from})"
        )
        return probe

    def _get_ahead(self, commit: str) -> None:
        folder = self._wheels.places(commit).dist
        with probe_story(self._name(commit), self._console, folder, self._announced, live=False) as reporter:
            self._wheels.get(commit, reporter)

    def _name(self, commit: str) -> str:
        return f"{self._reporter.target} {commit[:9]}"


def make_judge(target: Target, question: Question, options: BisectOptions, wheels: Wheels) -> Judge:
    """Return what decides whether a wheel is good.

    Args:
        target: What is built.
        question: What is asked.
        options: What the user chose.
        wheels: Gets the good end's wheel for a comparison of speed.
    """
    matrix = wheels.matrix
    if options.parity:
        return ParityJudge(options.parity, options.level, wheels.places, matrix, target.id)
    if options.bench:
        return SpeedJudge(
            options.bench, options.slower, options.library,
            lambda reporter: wheels.get(question.good, reporter).path, wheels.places, matrix, target.id,
        )  # fmt: skip

    def install(wheel: Path, folder: Path, reporter: Reporter) -> tuple[Path, Mapping[str, str]]:
        places = replace(wheels.places(question.good), dist=folder.parent)
        this = run.start(places, matrix, target, BuildOptions(), reporter, wheels.store)
        found = read_wheel(wheel, target, markers(target, matrix.python[0]))
        environment = this.environment(found.torch)
        limit = None if is_foreign(target) else hold_onednn_back(reporter, this_cpu(this))
        needed = needed_variables(limit)
        if options.requirements:
            return complete_environment(environment, wheel, folder, this.logs, wheels.unpacked), needed
        python = layered_environment(environment, folder, this.logs)
        install_wheel(wheel, python, None, this.logs, wheels.unpacked)
        return python, needed

    return CommandJudge(options.run or "", options.timeout, install, os.environ, Path.cwd())
