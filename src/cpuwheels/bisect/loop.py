"""The loop of a bisection: the ends, and the commits that tell most, until no verdict can tell more.

A result rests on two verdicts: the first bad commit's, and that of the good one before it. So the good end need not be
tested if a commit after it is good. It is tested where that costs little, and otherwise as soon as its verdict counts.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cpuwheels.bisect.search import ContradictionError, Search, Verdict
from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.errors import BisectError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cpuwheels.bisect.search import State as Left
    from cpuwheels.bisect.state import Probe, State
    from cpuwheels.source.history import History

_PATIENCE = 3
"""How many commits are tested without a good one among them before the good end is, after all: a command that never
succeeds is not to be found out at the end."""


@dataclass(frozen=True)
class Bisection:
    """The parts of a bisection.

    Attributes:
        history: The range.
        try_commit: Tests a commit and returns what was found; also gets the commits of which one is likely to be tested
            next.
        cost: Seconds that testing a commit is expected to take.
        is_at_hand: Whether testing a commit needs no compilation.
        keep: Called with the state after every probe.
        tell: Called with the commits left and the commits that are tested next.
        at_once: Commits tested side by side.
        ends_first: Whether both ends are tested first, whatever it costs.
    """

    history: History
    try_commit: Callable[[str, Sequence[str]], Probe]
    cost: Callable[[str], float]
    is_at_hand: Callable[[str], bool]
    keep: Callable[[State], None]
    tell: Callable[[Left, Sequence[str]], None]
    at_once: int = 1
    ends_first: bool = False


def bisect(bisection: Bisection, state: State, replayed: Mapping[str, Verdict] | None = None) -> tuple[State, Left]:
    """Search until no verdict can tell more.

    Args:
        bisection: The range, and how commits are tested.
        state: What is known from earlier runs; its probes are not repeated.
        replayed: Verdicts from elsewhere, believed unless the commit was tested here.

    Returns:
        The state with every probe, and the commits that are left.

    Raises:
        BisectError: An end does not have the verdict that it should have, or verdicts contradict each other.
        CpuwheelsError: Whatever testing a commit raises.
    """
    keeper = _Keeper(bisection, state)
    search = Search(bisection.history.commits)
    names = {commit.name for commit in bisection.history.commits}
    known = {name: verdict for name, verdict in (replayed or {}).items() if name in names}
    while True:
        verdicts = known | {name: verdict for name, verdict in keeper.state.verdicts.items() if name in names}
        try:
            left = search.state(verdicts)
        except ContradictionError as error:
            raise BisectError(
                f"the verdicts contradict each other: {error}",
                where=keeper.state.question.repository,
                next_step="more than one commit changes the verdict, or the command does not always give the same one: "
                "bisect a smaller range, or make the command decide by more than one attempt",
            ) from error
        if ends := _due_ends(bisection, keeper.state, verdicts, left):
            following = ends[bisection.at_once :][:1]
            after = (
                partial(tuple, following) if following else partial(search.next_probes, verdicts, cost=bisection.cost)
            )
            _try_ends(ends[: bisection.at_once], keeper, after)
            continue
        wanted = search.next_probes(verdicts, cost=bisection.cost, count=bisection.at_once)
        bisection.tell(left, wanted)
        if not wanted:
            return keeper.state, left
        keeper.try_all(wanted, partial(_after, search, verdicts, wanted[0], bisection.cost))


class _Keeper:
    """Tests commits and keeps what was found, whichever thread found it."""

    def __init__(self, bisection: Bisection, state: State) -> None:
        self.state = state
        self._bisection = bisection
        self._lock = threading.Lock()

    def try_all(self, names: Sequence[str], after: Callable[[], Sequence[str]]) -> None:
        expected = after() if names and self._bisection.at_once == 1 else ()
        run_parallel([partial(self._try, name, expected) for name in names], self._bisection.at_once)

    def _try(self, name: str, expected: Sequence[str]) -> None:
        probe = self._bisection.try_commit(name, expected)
        with self._lock:
            self.state = self.state.with_probe(probe)
            self._bisection.keep(self.state)


def _after(search: Search, verdicts: Mapping[str, Verdict], name: str, cost: Callable[[str], float]) -> tuple[str, ...]:
    """Return the commits of which one is tested after a commit, unless that is skipped."""
    found = [search.next_probes({**verdicts, name: verdict}, cost=cost) for verdict in (Verdict.GOOD, Verdict.BAD)]
    return tuple(dict.fromkeys(commit for commits in found for commit in commits))


def _due_ends(bisection: Bisection, state: State, verdicts: Mapping[str, Verdict], left: Left) -> list[str]:
    """Return the ends that are to be tested now: both, and the commit where their branches parted."""
    bad, good = state.question.bad, dict.fromkeys([state.question.good, bisection.history.base])
    found = [verdict for name, verdict in verdicts.items() if name != bad]
    parents = {commit.name: commit.parents for commit in bisection.history.commits}
    counts = left.ended and any(parent not in parents for name in left.suspects for parent in parents[name])
    is_due = bisection.ends_first or counts
    none_is_good, long = Verdict.GOOD not in found, len(found) >= _PATIENCE
    due = [name for name in good if is_due or (none_is_good and (long or bisection.is_at_hand(name)))]
    return [name for name in (*due, bad) if name not in state.verdicts]


def _try_ends(names: Sequence[str], keeper: _Keeper, after: Callable[[], Sequence[str]]) -> None:
    keeper.try_all(names, after)
    for name in names:
        _require(name, Verdict.BAD if name == keeper.state.question.bad else Verdict.GOOD, keeper.state)


def _require(name: str, said: Verdict, state: State) -> None:
    found = state.verdicts[name]
    if found is said:
        return
    ends = {state.question.good, state.question.bad}
    whole = name if name in ends else f"{name}, where the branches of good and bad part,"
    reason = next(probe.reason for probe in reversed(state.probes) if probe.commit == name)
    meaning = "cannot be tested" if found is Verdict.SKIP else f"is {found}"
    raise BisectError(
        f"{whole} should be {said} and {meaning}: {reason}",
        where="--good" if said is Verdict.GOOD else "--bad",
        next_step="give another commit for this end, or a command that tells the two ends apart; a command has "
        "no network and sees few of your files (--readable, --unconfined)",
    )
