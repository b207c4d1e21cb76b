"""Sources by commit: from a clone of this machine, and from remotes through the store's own clone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import DownloadError, LockedError, SourceError
from cpuwheels.core.sealed_entry import check_entry, sealed_digests
from cpuwheels.core.store import Store
from cpuwheels.fetch.requests import FILE, Requests, listed, watched
from cpuwheels.source.commit import CommitRequest
from cpuwheels.source.repository import Repository
from cpuwheels.source.worktree import TreeRequest
from loopback import DEAD, Server
from sample_source import EPOCH, clone_of_two, commit, git, write_tree

if TYPE_CHECKING:
    import io
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.source.result import Source

    Get = Callable[..., Source]

pytestmark = pytest.mark.usefixtures("plain_git")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the tag v0.32.0 on its first commit, and a second one."""
    return clone_of_two(tmp_path / "vllm")


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


@pytest.mark.parametrize("digits", [None, 9], ids=["a branch", "a short hash"])
def test_a_name_that_may_move_is_asked_for_again(get: Get, clone: Path, story: io.StringIO, digits: int | None) -> None:
    name = git(clone, "rev-parse", "main")[:digits] if digits else "origin/main"
    get(name, None, clone.as_uri())
    story.truncate(0)
    get(name, None, clone.as_uri())
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
    with pytest.raises(DownloadError, match="vLLM cannot be fetched") as raised:
        get("main", None, f"{DEAD}/vllm.git", tmp_path / "gone")
    assert f"{DEAD}/vllm.git: " in raised.value.output
    assert f"{tmp_path / 'gone'}: " in raised.value.output
    assert "CPUWHEELS_VLLM_REPO" in raised.value.next_step


def test_in_a_locked_run_no_other_repository_is_asked(get: Get, clone: Path, tmp_path: Path) -> None:
    with Server() as server:
        address = server.url("/vllm.git")
        with watched(Requests(tmp_path / FILE, listed("the list", []))), pytest.raises(LockedError, match="is no repo"):
            get("main", None, address, clone.as_uri())
        assert server.asked == []
        own = Requests(tmp_path / FILE, listed("the list", [], repositories=[address]))
        with watched(own):
            assert get("main", None, address, clone.as_uri()).version.startswith("0.32.1.dev1+g")
        assert server.asked
    assert (tmp_path / FILE).read_text() == f"git {address}\n"


def test_in_a_locked_run_a_partial_clone_of_this_machine_does_not_ask_its_remote(
    get: Get, clone: Path, tmp_path: Path
) -> None:
    partial = tmp_path / "partial"
    git(clone, "clone", "--quiet", "--bare", "--filter=blob:none", clone.as_uri(), str(partial))
    with Server() as server:
        git(partial, "config", "remote.origin.url", server.url("/vllm.git"))
        with watched(Requests(tmp_path / FILE, listed("the list", []))), pytest.raises(SourceError):
            get("main", partial)
        assert server.asked == []
        with pytest.raises(SourceError):
            get("main", partial)
        assert server.asked


def test_git_is_missing(get: Get, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DownloadError, match="vLLM cannot be fetched") as raised:
        get("main", None, clone)
    assert "No such file or directory: 'git'" in raised.value.output


def test_what_the_remote_does_not_have(get: Get, clone: Path) -> None:
    for name in ("nothing", "f" * 40):
        with pytest.raises(SourceError, match=f"there is no commit '{name}'"):
            get(name, None, clone.as_uri())


class TestAfterAnEarlierCommit:
    """Files that an earlier commit has too are not checked out again."""

    @pytest.fixture
    def checked_out(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The files that were checked out last."""
        names: list[str] = []
        check_out = Repository.check_out

        def noted(self: Repository, commit: str, folder: Path, since: str | None = None) -> None:
            check_out(self, commit, folder, since)
            names[:] = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())

        monkeypatch.setattr(Repository, "check_out", noted)
        return names

    @pytest.fixture
    def third(self, clone: Path) -> str:
        """A commit that changes, adds, removes, moves and re-modes files, and turns a file into a link."""
        (clone / "setup.py").write_text("three\n")
        (clone / "vllm" / "new.py").write_text("new\n")
        (clone / "csrc" / "cpu" / "more.cpp").write_text("int more;\n")
        (clone / "vllm" / "linked.py").symlink_to("new.py")
        (clone / "CMakeLists.txt").chmod(0o755)
        commit(clone)
        git(clone, "mv", "csrc/cpu/more.cpp", "csrc/cpu/moved.cpp")
        git(clone, "rm", "--quiet", "vllm/linked.py")
        commit(clone)
        return git(clone, "rev-parse", "HEAD")

    def whole(self, folder: Path, reporter: Reporter, clone: Path, name: str) -> Source:
        return CommitRequest(name, clone, ()).get(Store(folder / "another store"), reporter)

    def test_the_source_is_the_same(
        self, get: Get, clone: Path, third: str, tmp_path: Path, reporter: Reporter, checked_out: list[str]
    ) -> None:
        partly = []
        for name in ("v0.32.0", third, f"{third}~1", "v0.32.0"):
            source = get(name, clone)
            partly.append(list(checked_out))
            wanted = self.whole(tmp_path, reporter, clone, name)
            assert source.digest == wanted.digest
            assert sealed_digests(source.folder) == sealed_digests(wanted.folder)
            assert check_entry(source.folder) == []
            shutil.rmtree(tmp_path / "another store")
        assert len(partly[0]) > len(partly[1])
        assert partly[2:] == [["csrc/cpu/more.cpp", "vllm/linked.py"], []]

    def test_the_same_commit_again_needs_nothing(self, get: Get, clone: Path, checked_out: list[str]) -> None:
        first = get("main", clone)
        assert checked_out
        get("v0.32.0", clone)
        assert checked_out
        assert get("main", clone).folder == first.folder
        assert checked_out == []

    def test_where_attributes_changed_everything_is_checked_out(
        self, get: Get, clone: Path, checked_out: list[str], tmp_path: Path, reporter: Reporter
    ) -> None:
        before = get("main", clone)
        (clone / ".gitattributes").write_text("*.py text eol=crlf\n")
        commit(clone)
        source = get("main", clone)
        assert len(checked_out) > 1
        assert (source.folder / "setup.py").read_bytes() == b"two\r\n"
        assert (before.folder / "setup.py").read_bytes() == b"two\n"
        assert source.digest == self.whole(tmp_path, reporter, clone, "main").digest

    def test_a_damaged_or_foreign_snapshot_does_not_count(
        self, get: Get, clone: Path, third: str, checked_out: list[str], store: Store
    ) -> None:
        first = get("v0.32.0", clone)
        (first.folder / "CMakeLists.txt").write_text("other\n")
        source = get(third, clone)
        assert len(checked_out) > 2
        assert (source.folder / "CMakeLists.txt").read_text() == (clone / "CMakeLists.txt").read_text()
        for path in (store.root / "commits").iterdir():
            path.write_text("{")
        assert get("v0.32.0", clone).digest == first.digest
        elsewhere = write_tree(clone.parent / "elsewhere")
        commit(elsewhere)
        git(elsewhere, "tag", "v0.31.0")
        assert (get("main", elsewhere).folder / "setup.py").read_text() == ""

    def test_a_remote_sends_what_differs_at_once(self, get: Get, clone: Path, third: str) -> None:
        assert get("v0.32.0", None, clone.as_uri()).version == "0.32.0"
        source = get(third, None, clone.as_uri())
        assert (source.folder / "vllm" / "new.py").read_text() == "new\n"
