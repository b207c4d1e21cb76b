"""The search for the first bad commit, on histories drawn at random and without one build."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpuwheels.bisect.search import ContradictionError, Search, Verdict, rounds
from cpuwheels.source.history import Commit


def line(count):
    """Return a history without merges, named 0 to count - 1."""
    return [Commit(str(number), (str(number - 1),) if number else ()) for number in range(count)]


def ancestors(commits):
    """Return of each commit itself and its ancestors, in another way than the search does it."""
    found = {}
    for commit in commits:
        found[commit.name] = {commit.name}.union(*(found[name] for name in commit.parents if name in found))
    return found


def run(commits, culprit, *, skipped=(), count=1, cost=lambda _name: 1.0, at_most=10_000):
    """Return the last state of a search, its rounds and its verdicts."""
    search, behind, verdicts, taken = Search(commits), ancestors(commits), {}, 0
    while not search.state(verdicts).ended:
        names = search.next_probes(verdicts, cost=cost, count=count)
        assert names, "a search that has not ended has something to try"
        assert len(set(names)) == len(names) <= count
        assert not verdicts.keys() & set(names), "nothing is tried twice"
        for name in names:
            bad = culprit in behind[name]
            verdicts[name] = Verdict.SKIP if name in skipped else Verdict.BAD if bad else Verdict.GOOD
        taken += 1
        assert taken <= at_most
    return search.state(verdicts), taken, verdicts


@st.composite
def merged_histories(draw):
    """Draw a history with branches and merges, all of it ancestors of the last commit."""
    count = draw(st.integers(1, 40))
    commits = []
    for number in range(count):
        earlier = [str(other) for other in range(number)]
        parents = draw(st.lists(st.sampled_from(earlier), min_size=1, max_size=3, unique=True)) if earlier else []
        commits.append(Commit(str(number), tuple(parents)))
    kept = ancestors(commits)[str(count - 1)]
    return [commit for commit in commits if commit.name in kept]


@given(st.data())
def test_the_first_bad_commit_is_found_within_the_bound(data):
    count = data.draw(st.integers(1, 300))
    culprit = str(data.draw(st.integers(0, count - 1)))
    state, taken, _ = run(line(count), culprit)
    assert state.suspects == (culprit,)
    assert taken <= math.ceil(math.log2(count))


@given(st.data())
def test_cheap_commits_are_preferred_and_the_bound_is_kept(data):
    count = data.draw(st.integers(1, 300))
    culprit = str(data.draw(st.integers(0, count - 1)))
    cheap = data.draw(st.sets(st.integers(0, count - 1)))
    state, taken, _ = run(line(count), culprit, cost=lambda name: 1.0 if int(name) in cheap else 1000.0)
    assert state.suspects == (culprit,)
    assert taken <= math.ceil(math.log2(count))


@given(st.data())
def test_skipped_commits_leave_the_smallest_range(data):
    count = data.draw(st.integers(1, 120))
    culprit = data.draw(st.integers(0, count - 1))
    skipped = data.draw(st.sets(st.integers(0, count - 2))) if count > 1 else set()
    state, _, verdicts = run(line(count), str(culprit), skipped={str(number) for number in skipped})
    # By hand: whatever lies between the last testable good commit and the first testable bad one.
    last_good = max((number for number in range(culprit) if number not in skipped), default=-1)
    first_bad = min((number for number in range(culprit, count) if number not in skipped), default=count - 1)
    assert state.suspects == tuple(str(number) for number in range(last_good + 1, first_bad + 1))
    skips = sum(verdict is Verdict.SKIP for verdict in verdicts.values())
    assert len(verdicts) - skips <= math.ceil(math.log2(count)) + 2 * skips


@given(st.data())
def test_a_row_of_broken_commits_is_left_quickly(data):
    count = data.draw(st.integers(200, 1000))
    first = data.draw(st.integers(0, count // 2))
    length = data.draw(st.integers(1, count // 3))
    culprit = data.draw(st.integers(0, count - 1).filter(lambda number: not first <= number <= first + length))
    broken = {str(number) for number in range(first, first + length)}
    state, _, verdicts = run(line(count), str(culprit), skipped=broken)
    assert state.suspects == (str(culprit),)
    assert len(verdicts) <= 2 * math.ceil(math.log2(count)) + 2


@given(merged_histories(), st.data())
def test_merged_histories_are_searched_as_far_as_verdicts_reach(commits, data):
    names = [commit.name for commit in commits]
    culprit = data.draw(st.sampled_from(names))
    skipped = data.draw(st.sets(st.sampled_from(names))) - {names[-1]}
    state, _, _ = run(commits, culprit, skipped=skipped)
    behind = ancestors(commits)
    # Two commits that no testable commit tells apart stay together, and no others do.
    seen = {name: [name in behind[probe] for probe in names if probe not in skipped] for name in names}
    assert set(state.suspects) == {name for name in names if seen[name] == seen[culprit]}


@given(merged_histories(), st.data())
def test_without_skips_the_first_bad_commit_of_a_merged_history_is_found(commits, data):
    culprit = data.draw(st.sampled_from([commit.name for commit in commits]))
    assert run(commits, culprit)[0].suspects == (culprit,)


@given(st.data())
def test_several_at_once_need_fewer_rounds(data):
    total, count = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 5))
    culprit = str(data.draw(st.integers(0, total - 1)))
    state, taken, _ = run(line(total), culprit, count=count)
    assert state.suspects == (culprit,)
    assert taken <= rounds(total, count)


@given(merged_histories(), st.data())
def test_several_at_once_find_it_in_merged_histories(commits, data):
    culprit = data.draw(st.sampled_from([commit.name for commit in commits]))
    assert run(commits, culprit, count=data.draw(st.integers(2, 5)))[0].suspects == (culprit,)


@pytest.mark.parametrize(
    ("commits", "count", "expected"), [(1, 1, 0), (2, 1, 1), (1024, 1, 10), (1025, 1, 11), (9, 2, 2), (10, 2, 3)]
)
def test_rounds_are_a_logarithm_rounded_up(commits, count, expected):
    assert rounds(commits, count) == expected


def test_among_commits_that_halve_the_range_the_one_at_hand_is_taken():
    search = Search(line(1000))
    assert search.next_probes({}) == ("499",)
    assert search.next_probes({}, cost=lambda name: 20.0 if name == "505" else 1800.0) == ("505",)
    # One too far from the middle would cost a probe more than needed.
    assert search.next_probes({}, cost=lambda name: 20.0 if name == "800" else 1800.0) == ("499",)


def test_a_cheap_commit_that_tells_nearly_nothing_is_not_taken():
    search = Search(line(520))
    assert search.next_probes({}, cost=lambda name: 19.0 if name == "8" else 20.0) == ("259",)


def test_skipping_a_commit_moves_far_away():
    (second,) = Search(line(1000)).next_probes({"499": Verdict.SKIP})
    assert 200 <= abs(int(second) - 499) <= 300


def test_a_commit_beside_the_suspects_can_tell_them_apart():
    # a and b do not build; m merges them and is bad, y is built on a alone.
    commits = [
        Commit("a", ()),
        Commit("b", ()),
        Commit("m", ("a", "b")),
        Commit("y", ("a",)),
        Commit("end", ("m", "y")),
    ]
    verdicts = {"m": Verdict.BAD, "a": Verdict.SKIP, "b": Verdict.SKIP}
    search = Search(commits)
    assert search.state(verdicts).suspects == ("a", "b", "m")
    assert search.state(verdicts).probes == search.next_probes(verdicts) == ("y",)
    assert search.state(verdicts | {"y": Verdict.BAD}).suspects == ("a",)
    assert search.state(verdicts | {"y": Verdict.GOOD}).suspects == ("b", "m")


def test_verdicts_that_contradict_each_other_are_named():
    search = Search(line(5))
    with pytest.raises(ContradictionError, match="with 3 good") as error:
        search.state({"1": Verdict.BAD, "3": Verdict.GOOD})
    assert (error.value.name, error.value.verdict) == ("3", Verdict.GOOD)


@pytest.mark.parametrize(
    "commits",
    [[], [Commit("0", ()), Commit("0", ())], [Commit("1", ("0",)), Commit("0", ())]],
    ids=["none", "twice", "order"],
)
def test_a_range_that_is_none_is_refused(commits):
    with pytest.raises(ValueError, match=r"without|twice|after"):
        Search(commits)


def test_parents_outside_the_range_do_not_count():
    assert run([Commit("0", ("before",)), Commit("1", ("0", "other"))], "1")[0].suspects == ("1",)


def test_ten_thousand_commits_take_fourteen_probes():
    state, taken, _ = run(line(10_000), "6789")
    assert state.suspects == ("6789",)
    assert taken == 14


def test_every_short_history_is_searched_right():
    for count in range(1, 9):
        for culprit, bits in itertools.product(range(count), range(1 << (count - 1))):
            skipped = {str(number) for number in range(count) if bits >> number & 1}
            state, _, _ = run(line(count), str(culprit), skipped=skipped)
            assert str(culprit) in state.suspects
