"""Sources by commit: from a clone of this machine, and from remotes through the store's own clone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from loopback import DEAD
from sample_source import EPOCH, commit, git, write_tree

from cpuwheels.errors import SourceError
from cpuwheels.source.commit import CommitRequest
from cpuwheels.source.tree import TreeRequest

if TYPE_CHECKING:
    import io
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.console import Reporter
    from cpuwheels.source.result import Source
    from cpuwheels.store import Store

    Get = Callable[..., Source]

pytestmark = pytest.mark.usefixtures("plain_git")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the tag v0.32.0 on its first commit, and a second one."""
    folder = write_tree(tmp_path / "vllm")
    commit(folder)
    git(folder, "tag", "v0.32.0")
    git(folder, "config", "uploadpack.allowFilter", "true")
    (folder / "setup.py").write_text("two\n")
    commit(folder)
    return folder


@pytest.fixture
def get(store: Store, reporter: Reporter) -> Get:
    def ask(revision: str, clone: Path | None = None, *remotes: object) -> Source:
        return CommitRequest(revision, clone, tuple(map(str, remotes))).get(store, reporter)

    return ask


def test_a_commit_of_a_clone(get: Get, clone: Path) -> None:
    source = get("v0.32.0", clone)
    assert (source.version, source.epoch) == ("0.32.0", EPOCH)
    assert (source.folder / "setup.py").read_text() == ""
    assert source.commit == git(clone, "rev-parse", "v0.32.0")
    assert source.commit in source.origin
    assert "v0.32.0-0-g" in source.version_from


def test_a_clean_work_tree_and_its_commit_are_the_same_source(
    get: Get, clone: Path, store: Store, reporter: Reporter
) -> None:
    tree, source = TreeRequest(clone).get(store, reporter), get("HEAD", clone)
    assert (source.digest, source.folder, source.version) == (tree.digest, tree.folder, tree.version)
    assert source.commit == tree.commit == git(clone, "rev-parse", "HEAD")


def test_changes_that_are_not_committed_stay_where_they_are(get: Get, clone: Path) -> None:
    (clone / "setup.py").write_text("three\n")
    (clone / "new.py").write_text("")
    source = get("main", clone)
    assert (source.folder / "setup.py").read_text() == "two\n"
    assert not (source.folder / "new.py").exists()
    assert "dirty" not in source.version


def test_the_working_folder_has_no_say_in_the_version(
    get: Get, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SETUPTOOLS_SCM_PRETEND_VERSION", "9.9")
    assert get("v0.32.0", clone).version == "0.32.0"
    (tmp_path / "pyproject.toml").write_text('[tool.setuptools_scm]\nlocal_scheme = "no-local-version"\n')
    assert get("main", clone).version.startswith("0.32.1.dev1+g")


def test_crate_tags_do_not_count(get: Get, clone: Path) -> None:
    git(clone, "tag", "proto-v0.3.0")
    assert get("main", clone).version.startswith("0.32.1.dev1+g")


def test_a_shallow_clone_says_how_its_version_came_about(get: Get, clone: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--depth=1", "--no-tags", clone.as_uri(), "shallow")
    source = get("HEAD", tmp_path / "shallow")
    assert source.version.startswith("0.1.dev1+g")
    assert (
        source.version_from
        == "no release tag found: 1 commits from 0.0 of a shallow clone, whose count depends on its depth"
    )


def test_what_is_no_vllm_tree(get: Get, clone: Path) -> None:
    shutil.rmtree(clone / "csrc")
    commit(clone)
    with pytest.raises(SourceError, match=r"^commit [0-9a-f]{40} is not a vLLM source tree: it lacks csrc/cpu"):
        get("main", clone)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_commit_of_a_remote(get: Get, clone: Path, scheme: str, story: io.StringIO) -> None:
    source = get("v0.32.0", None, f"{DEAD}/vllm.git", f"{scheme}{clone}")
    assert (source.version, (source.folder / "setup.py").read_text()) == ("0.32.0", "")
    assert get("main", None, f"{scheme}{clone}").version.startswith("0.32.1.dev1+g")
    assert "fetching vLLM's history" in story.getvalue()


def test_history_is_fetched_once(get: Get, clone: Path, story: io.StringIO) -> None:
    head = git(clone, "rev-parse", "main")
    get("v0.32.0", None, clone.as_uri())
    story.truncate(0)
    get("v0.32.0", None, clone.as_uri())
    get(head, None, clone.as_uri())
    assert "fetching" not in story.getvalue()
    (clone / "setup.py").write_text("three\n")
    later = commit(clone)
    assert get("main", None, clone.as_uri()).version.endswith(later[:9])
    assert "fetching" in story.getvalue()


def test_only_the_contents_that_are_needed_are_fetched(get: Get, clone: Path, store: Store) -> None:
    first, second = git(clone, "rev-parse", "v0.32.0:requirements/cpu.txt"), git(clone, "rev-parse", "main:setup.py")
    get("v0.32.0", None, clone.as_uri())
    (own,) = (store.root / "git").glob("vllm-*")
    present = git(own, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    names = {line.split()[0] for line in present}
    assert first in names
    assert second not in names


def test_a_commit_of_no_branch_is_fetched_by_its_hash(get: Get, clone: Path) -> None:
    git(clone, "checkout", "--quiet", "--detach")
    (clone / "setup.py").write_text("of a pull request\n")
    wanted = commit(clone)
    git(clone, "update-ref", "refs/pull/1/head", wanted)
    git(clone, "checkout", "--quiet", "main")
    source = get(wanted, None, clone.as_uri())
    assert (source.folder / "setup.py").read_text() == "of a pull request\n"
    assert source.version == f"0.32.1.dev2+g{wanted[:9]}"


def test_without_a_network_what_was_fetched_is_taken_and_that_is_said(
    get: Get, clone: Path, story: io.StringIO
) -> None:
    get("main", None, clone.as_uri())
    clone.rename(clone.with_name("gone"))
    assert get("main", None, clone.as_uri()).version.startswith("0.32.1.dev1+g")
    assert "cannot be reached; its commits are as they were on 20" in story.getvalue()


def test_no_remote_answers(get: Get, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="vLLM cannot be fetched") as raised:
        get("main", None, f"{DEAD}/vllm.git", tmp_path / "gone")
    assert f"{DEAD}/vllm.git: " in raised.value.output
    assert f"{tmp_path / 'gone'}: " in raised.value.output
    assert "CPUWHEELS_VLLM_REPO" in raised.value.next_step


def test_git_is_missing(get: Get, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="vLLM cannot be fetched") as raised:
        get("main", None, clone)
    assert "No such file or directory: 'git'" in raised.value.output


def test_what_the_remote_does_not_have(get: Get, clone: Path) -> None:
    for name in ("nothing", "f" * 40):
        with pytest.raises(SourceError, match=f"there is no commit '{name}'"):
            get(name, None, clone.as_uri())
