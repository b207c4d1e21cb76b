"""Commits of a made week, and of a real clone."""

from __future__ import annotations

from pathlib import Path

import pytest
from farmbench.arrivals import A_WEEK, made_week, week_of

from cpuwheels.core.errors import UsageError
from cpuwheels.core.store import Store
from sample_source import dated_commit, git, write_tree

_DAY = 86_400


def test_a_made_week_has_as_many_commits_and_changes_as_asked_for() -> None:
    week = made_week(A_WEEK, 0.05, seed=3)
    assert (len(week.commits), week.changes) == (A_WEEK, 12)
    moments = [one.at for one in week.commits]
    assert moments == sorted(moments)
    assert 0 <= moments[0] < moments[-1] < 7 * _DAY
    assert len({one.commit for one in week.commits}) == A_WEEK


def test_the_same_seed_makes_the_same_week_and_another_one_another() -> None:
    assert made_week(seed=1) == made_week(seed=1) != made_week(seed=2)


def test_fewer_commits_come_at_weekends() -> None:
    week = made_week(5000)
    days = [sum(one.at // _DAY == day for one in week.commits) for day in range(7)]
    assert max(days[5:]) < 0.5 * min(days[:5])


def test_no_commit_or_all_of_them_may_change_kernels() -> None:
    assert made_week(20, 0.0).changes == 0
    assert made_week(20, 1.0).changes == 20
    with pytest.raises(UsageError):
        made_week(20, 1.5)
    with pytest.raises(UsageError):
        made_week(0)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Ten days of commits, one of them merged, of which the fourth changes kernels and the sixth undoes that."""
    tree = write_tree(tmp_path / "vllm")
    for day in range(1, 11):
        (tree / "vllm" / "days.py").write_text(f"DAY = {day}\n")
        (tree / "csrc" / "cpu" / "ops.cpp").write_text("int one() { return 2; }\n" if 4 <= day < 6 else "int one();\n")
        dated_commit(tree, f"2026-11-{day:02}T12:00:00+00:00")
    git(tree, "checkout", "--quiet", "-b", "side")
    dated_commit(tree, "2026-11-10T13:00:00+00:00")
    git(tree, "checkout", "--quiet", "main")
    git(tree, "merge", "--quiet", "--no-ff", "-m", "merged", "side", date="2026-11-10T14:00:00+00:00")
    return tree


def test_commits_of_a_clone_come_when_they_were_committed(clone: Path, tmp_path: Path) -> None:
    week = week_of(clone, Store(tmp_path / "store"), days=3)
    # The newest is the merge; what was merged does not count by itself.
    assert [one.at / 3600 for one in week.commits] == [22, 46, 70, 72]
    assert week.commits[-1].commit == git(clone, "rev-parse", "main")
    assert week.began == "2026-11-07T14:00:00+00:00"
    assert week.changes == 0
    assert len({one.kernels for one in week.commits}) == 1


def test_kernels_of_a_clone_are_those_that_the_farm_predicts(clone: Path, tmp_path: Path) -> None:
    week = week_of(clone, Store(tmp_path / "store"), until="2026-11-07", days=6)
    classes = [one.kernels for one in week.commits]
    assert len(classes) == 6  # from the second to the seventh
    assert classes[0] == classes[1] == classes[4] == classes[5] == week.before
    assert classes[2] == classes[3] != week.before
    assert week.changes == 1
    assert week_of(clone, Store(tmp_path / "store"), until="2026-11-07", days=60).before == ""


def test_a_clone_without_commits_in_these_days_is_an_error_that_names_the_newest(clone: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no commits in the 2 days before 2026-10-02") as raised:
        week_of(clone, Store(tmp_path / "store"), until="2026-10-01", days=2)
    assert "2026-11-10T14:00:00" in str(raised.value)
    with pytest.raises(UsageError, match="'soon' is no date"):
        week_of(clone, Store(tmp_path / "store"), until="soon")
