"""What a person calls a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import BisectError, SourceError
from cpuwheels.fetch.git import Git
from cpuwheels.source.repository import Repository
from cpuwheels.source.revisions import Revision, kind_of, resolve
from sample_source import dated_commit, git, write_tree

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("plain_git")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Three commits on main, of 1, 2 and 3 November 2026 at noon, the second of them v0.32.0; one on a branch."""
    folder = write_tree(tmp_path / "vllm")
    for day in (1, 2, 3):
        dated_commit(folder, f"2026-11-0{day}T12:00:00+00:00")
        if day == 2:
            git(folder, "tag", "v0.32.0")
    git(folder, "checkout", "--quiet", "-b", "other", "v0.32.0")
    dated_commit(folder, "2026-11-05T12:00:00+00:00")
    git(folder, "checkout", "--quiet", "main")
    return Repository(Git(folder), str(folder))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("4bd2a2f", "hash"),
        ("1234567", "hash"),
        ("a" * 40, "hash"),
        ("0.32.0", "version"),
        ("0.32.1.dev5+g4bd2a2f01.cpu", "version"),
        ("v0.32.0", "name"),
        ("main", "name"),
        ("HEAD~3", "name"),
        ("2026-11-02", "date"),
        ("2026-11-02T12:00", "date"),
        ("2026-11-02 12:00:01+01:00", "date"),
    ],
)
def test_each_kind_is_known_by_its_look(text: str, kind: str) -> None:
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    ("text", "behind"),
    [
        ("main", 0),
        ("HEAD~1", 1),
        ("v0.32.0", 1),
        ("0.32.0", 1),
        ("0.32.0+cpu", 1),
        ("2026-11-03", 0),
        ("2026-11-02", 1),
        ("2026-11-02T12:00", 1),
        ("2026-11-02T11:59:59", 2),
        ("2026-11-02T13:00+01:00", 1),
        ("2026-11-02T12:59+01:00", 2),
        ("2027-01-01", 0),
    ],
)
def test_every_kind_means_a_commit(repository: Repository, text: str, behind: int) -> None:
    wanted = git(repository.git.folder, "rev-parse", f"main~{behind}")
    assert resolve(repository, text, branch="main") == Revision(text, kind_of(text), wanted)


def test_a_version_between_releases_has_its_hash(repository: Repository) -> None:
    head = git(repository.git.folder, "rev-parse", "main")
    assert resolve(repository, f"0.32.1.dev1+g{head[:9]}.cpu", branch="main").commit == head


def test_dates_are_those_of_the_branch(repository: Repository) -> None:
    other = git(repository.git.folder, "rev-parse", "other")
    assert resolve(repository, "2026-11-30", branch="other").commit == other


@pytest.mark.parametrize("text", ["2026-10-31", "2026-11-01T11:59"])
def test_before_the_first_commit_there_is_none(repository: Repository, text: str) -> None:
    with pytest.raises(BisectError, match=f"main has no commit by {text}"):
        resolve(repository, text, branch="main")


def test_what_is_no_date(repository: Repository) -> None:
    with pytest.raises(BisectError, match="'2026-02-30' is no date"):
        resolve(repository, "2026-02-30", branch="main")


@pytest.mark.parametrize("text", ["nothing", "0.99.0", "0123456"])
def test_what_is_not_there(repository: Repository, text: str) -> None:
    with pytest.raises(SourceError, match="there is no commit"):
        resolve(repository, text, branch="main")
