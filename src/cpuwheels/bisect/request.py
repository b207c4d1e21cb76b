"""The question of a bisection, checked before any work is done."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.bisect.command_environment import check_names
from cpuwheels.bisect.command_sandbox import check_places
from cpuwheels.bisect.regress import check_regress
from cpuwheels.bisect.state import Question
from cpuwheels.config.options import SLOWER
from cpuwheels.core.capture import capture
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import UsageError
from cpuwheels.pipeline.reuse.donor import check_request
from cpuwheels.pipeline.serve_script import MODEL as PROMPTED
from cpuwheels.pipeline.serve_script import check_script
from cpuwheels.source.revisions import kind_of, moment_of
from cpuwheels.verification.serving.models import MADE, Model, chosen_models

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.options import BisectOptions
    from cpuwheels.source.repository import Repository
    from cpuwheels.source.revisions import Revision


def check_options(options: BisectOptions) -> None:
    """Refuse options that do not make one question.

    Raises:
        UsageError: They do not.
        BisectError: An end is no date that there is.
    """
    for end in (options.good, options.bad):
        if kind_of(end) == "date":
            moment_of(end)
    _check_way(options)
    _check_speed(options)
    _check_environment(options)
    if options.serve:
        _check_served(options.serve, options.slower)
    if options.run:
        _check_command(options.run)
    if options.kernels_from:
        check_request(options.build)


def _check_way(options: BisectOptions) -> None:
    ways = [name for name in ("run", "parity", "bench", "serve") if getattr(options, name)]
    if len(ways) > 1:
        raise UsageError(
            f"{len(ways)} ways to test a commit are given, one is needed",
            where="--run, --parity, --bench, --serve",
            next_step="give a command with --run, an operator with --parity or --bench, or a model with --serve; or "
            "none of them, to be asked for each verdict",
        )
    if options.prompt is not None:
        _check_prompt(options, ways)
    check_regress(options)
    if options.by_person and options.jobs > 1:
        raise UsageError(
            "a person is asked for one verdict after the other", where="--commits-at-once", next_step="leave it out"
        )


def _check_speed(options: BisectOptions) -> None:
    if options.slower and not (options.bench or options.serve):
        raise UsageError(
            "only speeds can be slower", where="--slower", next_step="give it with --bench or --serve, or leave it out"
        )
    timed = options.bench or (options.serve and served_slower(options))
    if timed and options.jobs > 1:
        raise UsageError(
            "speeds cannot be compared while others are measured", where="--commits-at-once", next_step="leave it out"
        )


def _check_environment(options: BisectOptions) -> None:
    script = bool(options.serve) and Path(options.serve or "").is_file()
    if options.env and not (options.in_environment or script):
        raise UsageError(
            "only a command or a script gets variables",
            where="--pass-env",
            next_step="give it with --run or a script of --serve, or leave it out",
        )
    check_names(os.environ, options.env)
    check_places(options, Path.cwd())
    if options.allow_sdists and not (options.in_environment and options.requirements):
        raise UsageError(
            "nothing is installed that could be a source distribution",
            where="--allow-sdists",
            next_step="give it with --run and without --no-requirements, or leave it out",
        )


def _check_prompt(options: BisectOptions, ways: Sequence[str]) -> None:
    """Refuse a text that no server could be asked, or whose answer nobody would see."""
    if not (options.prompt or "").strip():
        raise UsageError("a server cannot be asked nothing", where="--prompt", next_step="give a text")
    if (ways and ways != ["serve"]) or Path(options.serve or "").is_file():
        raise UsageError(
            "a text is asked of a server with a model",
            where=f"--prompt, --{(ways or ['serve'])[0]}",
            next_step="leave the other option out, or give --serve MODEL",
        )
    if options.slower:
        raise UsageError("an answer has no speed", where="--slower", next_step="leave it out, or --prompt")
    if MADE.get(options.serve or PROMPTED, Model()).task != "text":
        raise UsageError(f"{options.serve} answers no text", where="--serve", next_step="give a model that does")


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
    build = replace(options.build, source=None, sha256=None, repo=None, memory=None)
    return Question(
        target=target,
        good=good.commit,
        bad=bad.commit,
        first_parent=not options.all_parents,
        repository=repository.name,
        judge=_judge(options),
        options=tuple(build.as_arguments()),
    )


def _judge(options: BisectOptions) -> dict[str, str | float]:
    """Return what decides on a commit, with everything that changes verdicts."""
    judge = _of_way(options)
    if options.by_person:
        judge["verdicts"] = "by a person"
    if options.regress not in {None, "error"}:
        judge["regress"] = str(options.regress)
    return judge | _of_surroundings(options)


def _of_way(options: BisectOptions) -> dict[str, str | float]:
    if options.run:
        return _of_command(options.run, options)
    if options.parity:
        return {"parity": options.parity, "level": options.level}
    if options.bench:
        return {"bench": options.bench, "slower": options.slower or SLOWER, "library": options.library}
    if options.prompt is not None:
        return {"serve": options.serve or PROMPTED, "prompt": options.prompt}
    return _of_served(options.serve, options) if options.serve else _of_environment(options)


def _of_served(served: str, options: BisectOptions) -> dict[str, str | float]:
    judge: dict[str, str | float] = {"serve": served}
    if slower := served_slower(options):
        judge["slower"] = slower
    if Path(served).is_file():
        judge["script"] = file_digest(Path(served))
        if options.timeout:
            judge["timeout"] = options.timeout
    return judge


def served_slower(options: BisectOptions) -> float | None:
    """Return how many times the good end's time is too slow for a server; None if speed does not decide."""
    return options.slower or (SLOWER if options.regress == "slow" else None)


def compares_with_good(options: BisectOptions) -> bool:
    """Return whether verdicts come from a comparison with the good end, whose wheel is then made in any case."""
    return bool(options.bench or options.prompt is not None or (options.serve and served_slower(options)))


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
    return judge | _of_environment(options)


def _of_environment(options: BisectOptions) -> dict[str, str | float]:
    judge: dict[str, str | float] = {}
    if not options.requirements:
        judge["requirements"] = "none"
    if options.allow_sdists:
        judge["sdists"] = "allowed"
    return judge
