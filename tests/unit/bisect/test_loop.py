"""The loop of a bisection, with commits that are judged in no time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from cpuwheels.bisect.loop import Bisection, bisect
from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.state import Probe, Question, State
from cpuwheels.core.errors import BisectError, CompileError
from cpuwheels.source.history import Commit, History

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GOOD, BAD = f"{0:040x}", f"{100:040x}"
NAMES = [f"{number:040x}" for number in range(1, 101)]
HISTORY = History(GOOD, tuple(Commit(name, (before,)) for before, name in zip([GOOD, *NAMES], NAMES, strict=False)), 0)
QUESTION = Question(target="x86", good=GOOD, bad=BAD, first_parent=True, repository="here", judge={"run": "true"})


class World:
    """Commits that are bad from one on, some of which cannot be tested."""

    def __init__(self, first_bad: int, skipped: range = range(0)) -> None:
        self.first_bad, self.skipped = first_bad, skipped
        self.tried: list[int] = []
        self.kept: list[State] = []
        self.rounds: list[int] = []
        self.at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._meeting = threading.Barrier(1)

    def try_commit(self, name: str, _expected: Sequence[str] = ()) -> Probe:
        number = int(name, 16)
        with self._lock:
            self._now += 1
            self.at_once = max(self.at_once, self._now)
            self.tried.append(number)
        self._meeting.wait()
        verdict = Verdict.SKIP if number in self.skipped else Verdict.BAD if number >= self.first_bad else Verdict.GOOD
        with self._lock:
            self._now -= 1
        return Probe(commit=name, verdict=verdict, reason="so it was made", seconds=0.0, wheel_from="none")

    def _meet(self, count: int) -> None:
        """Let no commit of the next round be done before all of them are being tried."""
        self.rounds.append(count)
        self._meeting = threading.Barrier(max(count, 1), timeout=20)

    def run(
        self,
        state: State | None = None,
        *,
        replayed: Mapping[str, Verdict] | None = None,
        count: int = 1,
        try_commit: Callable[[str, Sequence[str]], Probe] | None = None,
        history: History = HISTORY,
        at_hand: Callable[[str], bool] | None = None,
        ends_first: bool = False,
    ):
        self._meet(min(count, 2))  # the ends
        bisection = Bisection(
            history,
            try_commit or self.try_commit,
            lambda _name: 1.0,
            at_hand or (lambda _name: True),
            self.kept.append,
            lambda _left, wanted: self._meet(len(wanted)),
            count,
            ends_first,
        )
        return bisect(bisection, state or State(question=QUESTION), replayed)


def test_ends_that_cost_little_are_tried_first_and_the_culprit_is_found() -> None:
    world = World(37)
    state, left = world.run()
    assert left.suspects == (f"{37:040x}",)
    assert world.tried[:2] == [0, 100]
    assert len(world.tried) <= 2 + 7
    assert [len(kept.probes) for kept in world.kept] == list(range(1, len(world.tried) + 1))
    assert world.kept[-1] == state


def nothing_at_hand(_: str) -> bool:
    return False


def test_a_good_end_that_has_to_be_compiled_is_not_tried_if_a_later_commit_is_good() -> None:
    world = World(37)
    _, left = world.run(at_hand=nothing_at_hand)
    assert left.suspects == (f"{37:040x}",)
    assert world.tried[0] == 100
    assert 0 not in world.tried
    assert {36, 37} < set(world.tried)


@pytest.mark.parametrize("first_bad", [1, 2, 9])
def test_without_a_good_commit_the_good_end_is_tried_before_long(first_bad: int) -> None:
    world = World(first_bad)
    _, left = world.run(at_hand=nothing_at_hand)
    assert left.suspects == (f"{first_bad:040x}",)
    assert world.tried.index(0) == 4


def test_if_the_first_commit_may_be_the_culprit_the_good_end_is_tried_last() -> None:
    history = History(GOOD, (*HISTORY.commits[:1], Commit(BAD, (NAMES[0],))), 0)
    world = World(1)
    _, left = world.run(at_hand=nothing_at_hand, history=history)
    assert left.suspects == (NAMES[0],)
    assert world.tried == [100, 1, 0]


def test_a_good_end_that_comes_to_hand_when_another_commit_is_good_is_not_tried() -> None:
    world = World(37)
    world.run(at_hand=lambda _: any(number < 37 for number in world.tried))
    assert 0 not in world.tried


def test_both_ends_are_tried_first_if_that_is_asked() -> None:
    world = World(37)
    world.run(at_hand=nothing_at_hand, ends_first=True)
    assert world.tried[:2] == [0, 100]


def test_a_good_end_that_is_bad_is_told_before_long() -> None:
    world = World(0)
    with pytest.raises(BisectError, match=f"{GOOD} should be good and is bad"):
        world.run(at_hand=nothing_at_hand)
    assert len(world.tried) == 5


@pytest.mark.parametrize(
    ("first_bad", "skipped", "words", "where"),
    [
        (0, range(0), f"{GOOD} should be good and is bad: so it was made", "--good"),
        (101, range(0), f"{BAD} should be bad and is good", "--bad"),
        (50, range(1), f"{GOOD} should be good and cannot be tested", "--good"),
        (50, range(100, 101), f"{BAD} should be bad and cannot be tested", "--bad"),
    ],
)
def test_a_wrong_end_is_refused(first_bad: int, skipped: range, words: str, where: str) -> None:
    world = World(first_bad, skipped)
    with pytest.raises(BisectError, match=words) as raised:
        world.run()
    assert raised.value.where == where
    assert world.tried == ([0] if where == "--good" else [0, 100])


def test_where_branches_part_has_to_be_good_too() -> None:
    base = "f" * 40
    with pytest.raises(BisectError, match="where the branches of good and bad part, should be good and is bad"):
        World(50).run(history=History(base, HISTORY.commits, 0))


def test_a_range_that_cannot_be_judged_is_left_over() -> None:
    _, left = World(50, range(40, 60)).run()
    assert left.suspects == tuple(f"{number:040x}" for number in range(40, 61))
    assert left.ended


def test_after_a_crash_nothing_is_tried_twice() -> None:
    world = World(37)

    def crash(name: str, _expected: Sequence[str]) -> Probe:
        if len(world.tried) == 5:
            raise CompileError("the disk was full")
        return world.try_commit(name)

    with pytest.raises(CompileError):
        world.run(try_commit=crash)
    before = list(world.tried)
    _, left = world.run(world.kept[-1])
    assert left.suspects == (f"{37:040x}",)
    assert len(set(world.tried)) == len(world.tried)
    assert world.tried[:5] == before


def test_replayed_verdicts_are_believed_and_others_than_of_the_range_ignored() -> None:
    world = World(37)
    replayed = {f"{36:040x}": Verdict.GOOD, f"{38:040x}": Verdict.BAD, "e" * 40: Verdict.BAD}
    _, left = world.run(replayed=replayed)
    assert left.suspects == (f"{37:040x}",)
    assert world.tried == [100, 37]


def test_what_was_tried_here_counts_more_than_what_is_replayed() -> None:
    world = World(37)
    state, _ = world.run()
    wrong = {probe.commit: Verdict.SKIP for probe in state.probes}
    world.tried.clear()
    assert world.run(state, replayed=wrong)[1].suspects == (f"{37:040x}",)
    assert world.tried == []


def test_verdicts_that_contradict_each_other_are_told() -> None:
    replayed = {f"{60:040x}": Verdict.GOOD, f"{40:040x}": Verdict.BAD}
    with pytest.raises(BisectError, match="contradict each other"):
        World(37).run(replayed=replayed)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_as_many_as_asked_are_tried_at_once_and_no_more(count: int) -> None:
    world = World(37)
    _, left = world.run(count=count)
    assert left.suspects == (f"{37:040x}",)
    assert world.at_once == max(world.rounds) == count
    assert len(world.kept) == len(world.tried)


@pytest.mark.parametrize("skipped", [range(0), range(45, 55)], ids=["none skipped", "some skipped"])
def test_what_may_be_tried_next_is_expected(skipped: range) -> None:
    world = World(37, skipped)
    expected: list[tuple[str, ...]] = []

    def try_commit(name: str, names: Sequence[str]) -> Probe:
        expected.append(tuple(names))
        return world.try_commit(name)

    world.run(try_commit=try_commit)
    assert len(expected) == len(world.tried)
    for number, (names, tried) in enumerate(zip(expected, world.tried[1:], strict=False)):
        assert len(names) <= 2
        assert f"{tried:040x}" in names or world.tried[number] in skipped
    assert expected[-1] == ()


def test_nothing_is_expected_where_several_are_tried_at_once() -> None:
    world = World(37)

    def try_commit(name: str, names: Sequence[str]) -> Probe:
        assert not names
        return world.try_commit(name)

    world.run(count=3, try_commit=try_commit)
    assert world.kept
