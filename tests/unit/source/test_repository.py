"""Which commit a name means, and its files, asked of small repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import SourceError
from cpuwheels.fetch.git import Git
from cpuwheels.source.repository import Repository
from cpuwheels.source.version import newest_release
from sample_source import EPOCH, commit, git, write_tree

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("plain_git")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the tag v0.32.0 on its first commit, and a second one."""
    folder = write_tree(tmp_path / "vllm", {"run.sh": "#!/bin/sh\n"})
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("setup.py")
    commit(folder)
    git(folder, "tag", "--annotate", "--message", "release", "v0.32.0")
    (folder / "setup.py").write_text("two\n")
    commit(folder)
    return folder


@pytest.fixture
def repository(clone: Path) -> Repository:
    return Repository(Git(clone), str(clone))


def test_every_kind_of_name(repository: Repository, clone: Path) -> None:
    first, second = git(clone, "rev-parse", "HEAD~1"), git(clone, "rev-parse", "HEAD")
    assert repository.commit("v0.32.0") == repository.commit("HEAD~1") == repository.commit(first[:7]) == first
    assert repository.commit("main") == repository.commit("HEAD") == repository.commit(second) == second
    assert repository.commit("refs/heads/main") == second


def test_the_newest_release(repository: Repository, clone: Path) -> None:
    assert newest_release(repository) == "v0.32.0"
    for tag in ("v0.9.1", "v0.33.0rc1", "proto-v0.99.0", "v1x", "nightly"):
        git(clone, "tag", tag)
    assert newest_release(repository) == "v0.32.0"
    git(clone, "tag", "v0.32.1", "HEAD~1")
    assert newest_release(repository) == "v0.32.1"


def test_no_release(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "vllm", {})
    commit(folder)
    with pytest.raises(SourceError, match="no tag of a release"):
        newest_release(Repository(Git(folder), "here"))


def test_a_tag_and_a_branch_of_one_name_are_told_apart(repository: Repository, clone: Path) -> None:
    git(clone, "branch", "v0.32.0", "main")
    with pytest.raises(SourceError, match=r"is the name of refs/heads/v0[.]32[.]0 and of refs/tags/v") as raised:
        repository.commit("v0.32.0")
    assert "refs/" in raised.value.next_step
    assert repository.commit("refs/tags/v0.32.0") == git(clone, "rev-parse", "HEAD~1")


def test_a_tag_and_a_branch_of_one_commit_are_one(repository: Repository, clone: Path) -> None:
    git(clone, "branch", "v0.32.0", "v0.32.0^{commit}")
    assert repository.commit("v0.32.0") == git(clone, "rev-parse", "HEAD~1")


def test_a_branch_of_the_clone_goes_before_the_remotes(repository: Repository, clone: Path) -> None:
    git(clone, "update-ref", "refs/remotes/origin/main", "HEAD~1")
    git(clone, "update-ref", "refs/remotes/origin/other", "HEAD~1")
    assert repository.commit("main") == git(clone, "rev-parse", "HEAD")
    assert repository.commit("other") == git(clone, "rev-parse", "HEAD~1")


@pytest.mark.parametrize(
    "name", ["nothing", "f" * 40, "0123456", "--all", "", "HEAD:setup.py", "a b", "v0.32.0^{tree}"]
)
def test_what_is_not_there(repository: Repository, name: str) -> None:
    with pytest.raises(SourceError, match="there is no commit") as raised:
        repository.commit(name)
    assert raised.value.where == repository.name
    assert raised.value.next_step


def test_an_ambiguous_hash_lists_its_commits(repository: Repository, clone: Path) -> None:
    beginnings: dict[str, str] = {}
    tree = git(clone, "rev-parse", "HEAD^{tree}")
    for number in range(3000):
        found = git(clone, "commit-tree", tree, "-m", str(number))
        if other := beginnings.get(found[:4]):
            break
        beginnings[found[:4]] = found
    with pytest.raises(SourceError, match=f"commits begin with {found[:4]}") as raised:
        repository.commit(found[:4])
    assert {found, other} <= set(raised.value.output.splitlines())
    assert raised.value.next_step == "give more digits"


def test_a_commit_is_checked_out_as_it_was_made(repository: Repository, clone: Path, tmp_path: Path) -> None:
    git(clone, "config", "core.autocrlf", "true")
    git(clone, "config", "core.symlinks", "false")
    (clone / "setup.py").write_text("edited\n")
    before = {path: path.read_bytes() for path in (clone / ".git").rglob("*") if path.is_file()}
    folder = tmp_path / "out"
    folder.mkdir()
    commit = repository.commit("v0.32.0")
    repository.check_out(commit, folder)
    names = list(repository.objects(commit))
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()) == names
    assert (folder / "setup.py").read_bytes() == b""
    assert (folder / "csrc" / "cpu" / "ops.cpp").read_bytes() == (clone / "csrc" / "cpu" / "ops.cpp").read_bytes()
    assert (folder / "run.sh").stat().st_mode & 0o111
    assert (folder / "link").is_symlink()
    assert sorted(tmp_path.iterdir()) == sorted([folder, clone])
    # Nothing of the clone has changed, its index and work tree least of all.
    assert {path: path.read_bytes() for path in (clone / ".git").rglob("*") if path.is_file()} == before
    assert (clone / "setup.py").read_text() == "edited\n"


def test_a_commit_that_cannot_be_checked_out(repository: Repository, clone: Path, tmp_path: Path) -> None:
    blob = git(clone, "rev-parse", "HEAD:csrc/cpu/ops.cpp")
    (clone / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    (tmp_path / "out").mkdir()
    with pytest.raises(SourceError, match="git cannot check out") as raised:
        repository.check_out(repository.commit("main"), tmp_path / "out")
    assert blob in raised.value.output or "csrc/cpu/ops.cpp" in raised.value.output


def test_when_a_commit_was_made(repository: Repository) -> None:
    assert repository.epoch(repository.commit("main")) == EPOCH
    with pytest.raises(SourceError, match="there is no commit"):
        repository.epoch("0" * 40)
