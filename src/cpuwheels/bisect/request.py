"""The question of a bisection, checked before any work is done."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.bisect.command_environment import check_names
from cpuwheels.bisect.command_sandbox import check_places
from cpuwheels.bisect.state import Question
from cpuwheels.config.options import SLOWER
from cpuwheels.core.capture import capture
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import UsageError
from cpuwheels.pipeline.reuse.donor import check_request
from cpuwheels.pipeline.serve_script import check_script
from cpuwheels.verification.serving.models import MADE, chosen_models

if TYPE_CHECKING:
    from cpuwheels.config.options import BisectOptions
    from cpuwheels.source.repository import Repository
    from cpuwheels.source.revisions import Revision


def check_options(options: BisectOptions) -> None:
    """Refuse options that do not make one question.

    Raises:
        UsageError: They do not.
    """
    ways = [name for name in ("run", "parity", "bench", "serve") if getattr(options, name)]
    if len(ways) != 1:
        raise UsageError(
            f"{len(ways)} ways to test a commit are given, one is needed",
            where="--run, --parity, --bench, --serve",
            next_step="give a command with --run, an operator with --parity or --bench, or a model with --serve",
        )
    if options.slower and not (options.bench or options.serve):
        raise UsageError(
            "only speeds can be slower", where="--slower", next_step="give it with --bench or --serve, or leave it out"
        )
    timed = options.bench or (options.serve and options.slower)
    if timed and options.jobs > 1:
        raise UsageError(
            "speeds cannot be compared while others are measured", where="--commits-at-once", next_step="leave it out"
        )
    script = bool(options.serve) and Path(options.serve or "").is_file()
    if options.env and not (options.run or script):
        raise UsageError(
            "only a command or a script gets variables",
            where="--pass-env",
            next_step="give it with --run or a script of --serve, or leave it out",
        )
    check_names(os.environ, options.env)
    check_places(options, Path.cwd())
    if options.allow_sdists and not (options.run and options.requirements):
        raise UsageError(
            "nothing is installed that could be a source distribution",
            where="--allow-sdists",
            next_step="give it with --run and without --no-requirements, or leave it out",
        )
    if options.serve:
        _check_served(options.serve, options.slower)
    if options.run:
        _check_command(options.run)
    if options.kernels_from:
        check_request(options.build)


def _check_served(given: str, slower: float | None) -> None:
    """Refuse what is neither a script nor a model, and the speed of a script."""
    if not Path(given).is_file():
        chosen_models([given], MADE)
        return
    check_script(Path(given))
    if slower:
        raise UsageError(
            "a script decides by its exit status", where="--slower", next_step="leave it out, or give a model"
        )


def _check_command(command: str) -> None:
    """Refuse a command that the shell cannot read, or whose program is named by a path and is not there."""
    done = capture(["sh", "-n", "-c", command])
    if done.returncode != 0:
        raise UsageError(
            "the shell cannot read the command", where=f"--run {command}", output=done.output, next_step="correct it"
        )
    try:
        words = shlex.split(command)
    except ValueError:
        return  # the shell takes it, so it knows better
    program = next((word for word in words if "=" not in word), "")
    if "/" in program and "$" not in program and not os.access(program, os.X_OK):
        raise UsageError(
            f"the command {program} is not there or cannot be run",
            where=f"--run {command}",
            next_step=f"correct its path; commands run in {Path.cwd()}",
        )


def make_question(
    target: str, good: Revision, bad: Revision, repository: Repository, options: BisectOptions
) -> Question:
    """Return the question: everything that the verdicts depend on."""
    judge: dict[str, str | float] = {}
    if options.run:
        judge = _of_command(options.run, options)
    elif options.parity:
        judge = {"parity": options.parity, "level": options.level}
    elif options.bench:
        judge = {"bench": options.bench, "slower": options.slower or SLOWER, "library": options.library}
    elif options.serve:
        judge = {"serve": options.serve}
        if options.slower:
            judge["slower"] = options.slower
        if Path(options.serve).is_file():
            judge["script"] = file_digest(Path(options.serve))
            if options.timeout:
                judge["timeout"] = options.timeout
    judge |= _of_surroundings(options)
    build = replace(options.build, source=None, sha256=None, repo=None, memory=None)
    return Question(
        target=target,
        good=good.commit,
        bad=bad.commit,
        first_parent=not options.all_parents,
        repository=repository.name,
        judge=judge,
        options=tuple(build.as_arguments()),
    )


def _of_surroundings(options: BisectOptions) -> dict[str, str]:
    """Return what a command or script gets of the user's variables and files."""
    found = {"env": " ".join(sorted(set(options.env)))} if options.env else {}
    for name, paths in (("readable", options.readable), ("writable", options.writable)):
        if paths:
            found[name] = shlex.join(sorted({str(path.absolute()) for path in paths}))
    return found | ({"unconfined": "yes"} if options.unconfined else {})


def _of_command(command: str, options: BisectOptions) -> dict[str, str | float]:
    judge: dict[str, str | float] = {"run": command}
    if options.timeout:
        judge["timeout"] = options.timeout
    if not options.requirements:
        judge["requirements"] = "none"
    if options.allow_sdists:
        judge["sdists"] = "allowed"
    return judge
