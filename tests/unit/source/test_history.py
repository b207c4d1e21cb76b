"""The commits between two ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.bisect.search import Search, Verdict
from cpuwheels.core.errors import BisectError
from cpuwheels.fetch.git import Git
from cpuwheels.source.history import history_between
from cpuwheels.source.repository import Repository
from sample_source import commit, git, write_tree

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("plain_git")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One, two, a merge of side (from one), four."""
    folder = write_tree(tmp_path / "vllm")
    for name in ("one", "two"):
        commit(folder, name)
        git(folder, "tag", name)
    git(folder, "checkout", "--quiet", "-b", "side", "one")
    commit(folder, "side")
    git(folder, "checkout", "--quiet", "main")
    git(folder, "merge", "--quiet", "--no-ff", "--message", "merge", "side")
    git(folder, "tag", "merge")
    commit(folder, "four")
    git(folder, "tag", "four")
    return folder


def between(folder: Path, good: str, bad: str, *, first_parent: bool = True):
    names = {name: git(folder, "rev-parse", name) for name in ("one", "two", "side", "merge", "four")}
    repository = Repository(Git(folder), str(folder))
    history = history_between(repository, names[good], names[bad], first_parent=first_parent)
    known = {hash_: name for name, hash_ in names.items()}
    return history, known[history.base], [known[commit.name] for commit in history.commits]


def test_only_first_parents(folder: Path) -> None:
    history, base, names = between(folder, "one", "four")
    assert (base, names, history.merges) == ("one", ["two", "merge", "four"], 1)
    assert [len(commit.parents) for commit in history.commits] == [1, 1, 1]
    assert Search(history.commits).state({}).suspects == tuple(commit.name for commit in history.commits)


def test_every_parent(folder: Path) -> None:
    history, _, names = between(folder, "one", "four", first_parent=False)
    assert sorted(names) == ["four", "merge", "side", "two"]
    assert names[-2:] == ["merge", "four"]
    side = next(commit.name for commit, name in zip(history.commits, names, strict=True) if name == "side")
    assert Search(history.commits).state({side: Verdict.BAD}).suspects == (side,)


def test_the_good_end_may_be_on_a_branch_of_its_own(folder: Path) -> None:
    _, base, names = between(folder, "side", "two")
    assert (base, names) == ("one", ["two"])


@pytest.mark.parametrize(
    ("good", "bad", "message"), [("two", "two", "are the same commit"), ("four", "two", "comes after the bad one")]
)
def test_ends_that_make_no_range(folder: Path, good: str, bad: str, message: str) -> None:
    with pytest.raises(BisectError, match=message) as raised:
        between(folder, good, bad)
    assert raised.value.next_step


def test_histories_that_have_nothing_in_common(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "--orphan", "orphan")
    other = commit(folder, "orphan")
    with pytest.raises(BisectError, match="have no common history"):
        history_between(
            Repository(Git(folder), str(folder)), git(folder, "rev-parse", "main"), other, first_parent=True
        )
