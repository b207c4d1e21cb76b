"""One bisection from its ends to its result."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels.bisect.cost_model import costs_of
from cpuwheels.bisect.dialogue import open_dialogue
from cpuwheels.bisect.farm_wheels import PRIORITY, FarmWheels
from cpuwheels.bisect.git_log import replayed
from cpuwheels.bisect.loop import Bisection, bisect
from cpuwheels.bisect.person import Person
from cpuwheels.bisect.probe import Prober, make_predicate
from cpuwheels.bisect.request import check_options, compares_with_good, make_question
from cpuwheels.bisect.result import outcome_of
from cpuwheels.bisect.search import Verdict, rounds
from cpuwheels.bisect.state import alone, read_state, unfinished, write_state
from cpuwheels.bisect.wheels import Wheels
from cpuwheels.config.host import check_own_machine
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.store import Store
from cpuwheels.core.text import counted
from cpuwheels.core.trust import Trust
from cpuwheels.farm.estimate import estimates
from cpuwheels.farm.graph import Order
from cpuwheels.farm.job import project_identity
from cpuwheels.farm.journal import Journal
from cpuwheels.farm.sources import kernel_classes
from cpuwheels.fetch.git_archive import repositories_of
from cpuwheels.source.clone import REPOSITORY_VARIABLE, open_repository
from cpuwheels.source.history import history_between
from cpuwheels.source.revisions import Revision, git_name, resolve
from cpuwheels.source.version import is_changed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.bisect.result import Outcome
    from cpuwheels.bisect.search import State as Left
    from cpuwheels.bisect.state import Probe, Question, State
    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import BisectOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.farm.executor import Executor
    from cpuwheels.source.history import History
    from cpuwheels.source.repository import Repository


def run_bisection(
    paths: Paths,
    matrix: Matrix,
    name: str,
    options: BisectOptions,
    reporter: Reporter,
    executor: Executor | None = None,
) -> Outcome:
    """Find the first bad commit between two ends, and continue where an earlier run of the same question stopped.

    Args:
        paths: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        options: What the user chose.
        reporter: Told of every step.
        executor: Of a farm that makes the wheels; this machine does if not given.

    Raises:
        BisectError: The ends make no range, an end does not have the verdict that it should have, or verdicts
            contradict each other.
        CpuwheelsError: Any stage's own error that is not about a commit.
    """
    target = matrix.buildable(name)
    check_own_machine(target)
    check_options(options)
    dialogue = open_dialogue() if options.by_person else None
    known = replayed(options.log) if options.log else {}
    store = Store(paths.cache, check_once=True, trust=Trust.COMMIT)
    repository = _repository(matrix, options, store, reporter)
    good, bad = (resolve(repository, text, branch=options.branch) for text in _ends(options))
    question = make_question(target.id, good, bad, repository, options)
    if not options.bad:
        question = _begun_before(question, paths, options, reporter)
        bad = bad if bad.commit == question.bad else Revision(question.bad, "hash", question.bad)
    _tell_ends(good, bad, reporter, named=bool(options.bad))
    history = history_between(repository, good.commit, bad.commit, first_parent=not options.all_parents)
    folder = (options.out or paths.dist / "bisect" / question.key()).resolve()
    with alone(folder):
        state = read_state(folder, question)
        commits = [commit.name for commit in history.commits]
        costs = costs_of(repository, [question.good, history.base, *commits], store, target.id)
        _tell_range(history, state, costs.different(commits), folder, options, reporter)
        ends_first = options.by_person or options.jobs > 1 or compares_with_good(options)
        if not (ends_first or costs.is_at_hand(question.good)):
            reporter.info(f"{good.commit[:9]} has to be compiled: it is tested if no later commit tells as much")
        farm = _farm(executor, paths, matrix, options, repository, store, target.id, history) if executor else None
        wheels = Wheels(
            paths.root, store, folder, matrix, target, options.build, options.index, paths.other_matrix, farm
        )
        ends = {question.good: Verdict.GOOD, question.bad: Verdict.BAD}
        person = Person(dialogue, ends, options.regress) if dialogue else None
        judge = make_predicate(target, question, options, wheels, person)

        for probe in state.probes:
            costs.learn(probe)

        try:
            with Prober(wheels, judge, folder, reporter, at_once=options.jobs, person=person) as trier:

                def try_commit(commit: str, expected: Sequence[str]) -> Probe:
                    probe = trier(commit, [name for name in expected if person or farm or costs.is_at_hand(name)])
                    costs.learn(probe)
                    return probe

                def keep(now: State) -> None:
                    write_state(folder, now)
                    trier.tell(now.probes[-1])

                bisection = Bisection(
                    history,
                    try_commit,
                    costs,
                    costs.is_at_hand,
                    keep=keep,
                    tell=lambda left, wanted: _tell_left(left, wanted, repository, reporter),
                    at_once=options.jobs,
                    ends_first=ends_first,
                )
                state, left = bisect(bisection, state, known)
        finally:
            with storage_errors(folder):
                remove_tree(wheels.unpacked)
    return outcome_of(repository, history, state, left, folder)


def _farm(
    executor: Executor,
    paths: Paths,
    matrix: Matrix,
    options: BisectOptions,
    repository: Repository,
    store: Store,
    target: str,
    history: History,
) -> FarmWheels:
    """Return who has wheels made by a farm; its workers have a share of their machines, and clones, of their own."""
    build = replace(options.build, repo=None, memory=None)
    order = Order(project_identity(paths), tuple(build.as_arguments()), check=False, priority=PRIORITY)
    commits = [history.base, *(commit.name for commit in history.commits)]
    estimate = estimates(paths, matrix, Journal(paths.dist).seconds())
    return FarmWheels(executor, target, order, estimate, kernel_classes(commits, repository, store))


def _repository(matrix: Matrix, options: BisectOptions, store: Store, reporter: Reporter) -> Repository:
    remotes = repositories_of(matrix.repositories, REPOSITORY_VARIABLE, os.environ)
    names = [git_name(text, options.branch) for text in _ends(options)]
    repository = open_repository(options.repo, remotes, names, store=store, reporter=reporter)
    bare = repository.git.ask("rev-parse", "--is-bare-repository").output.strip() == "true"
    if options.repo and not bare and is_changed(repository.git):
        reporter.announce(
            f"{repository.name} has changes that are not committed; they are part of no commit that is tested"
        )
    return repository


def _ends(options: BisectOptions) -> tuple[str, str]:
    """Return both ends as they are looked up; the newest commit of the branch is the bad one if none is given."""
    return options.good, options.bad or options.branch


def _begun_before(question: Question, paths: Paths, options: BisectOptions, reporter: Reporter) -> Question:
    """Return the question of an unfinished bisection, if there is one: the branch may have newer commits by now."""
    folders = [options.out] if options.out else sorted((paths.dist / "bisect").glob("*"))
    state = unfinished(folders, question)
    if state is None or state.question.bad == question.bad:
        return question
    reporter.announce(
        f"{options.branch} has newer commits; an unfinished bisection up to {state.question.bad[:9]} goes on: "
        f"--bad {options.branch} begins another"
    )
    return state.question


def _tell_ends(good: Revision, bad: Revision, reporter: Reporter, *, named: bool) -> None:
    reporter.info(f"good: {good}")
    reporter.info(f"bad: {bad}")
    if named and good.kind != bad.kind and {good.kind, bad.kind} != {"hash", "name"}:
        reporter.announce(f"the ends are named in two ways, by {good.kind} and by {bad.kind}")


def _tell_range(
    history: History, state: State, kernels: int, folder: Path, options: BisectOptions, reporter: Reporter
) -> None:
    count = len(history.commits)
    reporter.info(
        f"{count} commits with about {kernels} different kernels, at most {rounds(count, options.jobs)} "
        f"{'rounds' if options.jobs > 1 else 'probes'} if none is skipped; all is kept in {folder}"
    )
    if history.merges and not options.all_parents:
        reporter.info(f"{history.merges} of them are merges, each taken as one change; --all-parents looks into them")
    if state.probes:
        reporter.info(f"going on; tested before: {counted(len(state.probes), 'commit')}")


def _tell_left(left: Left, wanted: Sequence[str], repository: Repository, reporter: Reporter) -> None:
    if wanted:
        more = rounds(len(left.suspects))
        reporter.info(f"left: {counted(len(left.suspects), 'commit')}, about {counted(more, 'more probe')}")
    for commit in wanted:
        reporter.info(f"testing {commit[:9]} {repository.subject(commit)}")
