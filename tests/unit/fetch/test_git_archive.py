from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import OneDnnError
from cpuwheels.core.usage import counted
from cpuwheels.fetch.git_archive import GitSource, commit_key, get_commit, learn_commit, repositories_of
from loopback import DEAD
from sample_source import commit, git

if TYPE_CHECKING:
    import io
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

    Get = Callable[..., Path]
    Learn = Callable[..., str]

pytestmark = pytest.mark.usefixtures("plain_git")

ABSENT = "0" * 40
VARIABLE = "CPUWHEELS_THING_REPO"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository whose tag v1 is not its newest commit."""
    folder = tmp_path / "thing"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.cpp").write_text("one\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    commit(folder)
    git(folder, "tag", "v1")
    (folder / "src" / "a.cpp").write_text("two\n")
    commit(folder)
    return folder


def source(*repositories: object) -> GitSource:
    return GitSource("Thing", "thing", "v1", tuple(map(str, repositories)), VARIABLE, OneDnnError)


def tagged(clone: Path) -> str:
    return git(clone, "rev-parse", "v1^{commit}")


@pytest.fixture
def get(store: Store, reporter: Reporter, logs: Path) -> Get:
    def ask(wanted: str, *repositories: object) -> Path:
        return get_commit(source(*repositories), wanted, store=store, reporter=reporter, logs=logs)

    return ask


@pytest.fixture
def learn(store: Store, reporter: Reporter, logs: Path) -> Learn:
    def ask(*repositories: object) -> str:
        return learn_commit(source(*repositories), store=store, reporter=reporter, logs=logs)

    return ask


def test_a_commit_and_then_nothing_more(get: Get, clone: Path, store: Store) -> None:
    wanted = tagged(clone)
    folder = get(wanted, clone)
    assert folder == store.path("thing", commit_key(wanted))
    assert (folder / "src" / "a.cpp").read_text() == "one\n"
    assert (folder / "run.sh").stat().st_mode & 0o111
    assert not (folder / ".export.tar").exists()
    clone.rename(clone.with_name("gone"))
    assert get(wanted, clone) == folder


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("by_hash", [True, False], ids=["by hash", "by tag"])
def test_servers_that_give_commits_by_hash_and_those_that_do_not(
    get: Get, clone: Path, scheme: str, by_hash: bool
) -> None:
    # Protocol 0 without this setting gives what a reference points to and nothing else.
    (clone.parent / ".gitconfig").write_text(f"[protocol]\n\tversion = {2 if by_hash else 0}\n")
    git(clone, "config", "uploadpack.allowAnySHA1InWant", str(by_hash).lower())
    assert (get(tagged(clone), f"{scheme}{clone}") / "src" / "a.cpp").read_text() == "one\n"


def test_a_commit_that_only_a_branch_holds_is_found(get: Get, clone: Path) -> None:
    (clone.parent / ".gitconfig").write_text("[protocol]\n\tversion = 0\n")
    wanted = tagged(clone)
    git(clone, "tag", "--delete", "v1")
    assert (get(wanted, clone) / "src" / "a.cpp").read_text() == "one\n"


def test_a_tag_that_was_moved_does_not_matter_to_a_commit(get: Get, clone: Path) -> None:
    wanted = tagged(clone)
    git(clone, "tag", "--force", "v1", "HEAD")
    assert (get(wanted, clone) / "src" / "a.cpp").read_text() == "one\n"


def test_repositories_are_tried_in_order(get: Get, clone: Path, story: io.StringIO) -> None:
    get(tagged(clone), f"{DEAD}/a.git", clone.parent / "gone", clone)
    told = story.getvalue()
    assert told.index(f"{DEAD}/a.git") < told.index("gone") < told.index(f"from {clone}\n")


def test_a_clone_of_this_machine_is_stored_and_not_fetched(get: Get, clone: Path) -> None:
    with counted() as usage:
        get(tagged(clone), clone)
    assert usage.fetched().as_sentence() == ""
    assert usage.stored().keys() == {"git", "thing"}


def test_a_clone_may_be_named_from_home(get: Get, clone: Path) -> None:
    assert (get(tagged(clone), "~/thing") / "src" / "a.cpp").read_text() == "one\n"


def test_the_users_own_repository_comes_first() -> None:
    assert repositories_of(("a", "b"), VARIABLE, {}) == ("a", "b")
    assert repositories_of(("a", "b"), VARIABLE, {VARIABLE: ""}) == ("a", "b")
    assert repositories_of(("a", "b"), VARIABLE, {VARIABLE: "mine"}) == ("mine", "a", "b")


def test_every_repository_without_the_commit_is_named(get: Get, clone: Path, store: Store) -> None:
    gone = str(clone.parent / "gone")
    with pytest.raises(OneDnnError, match=rf"Thing v1 \({ABSENT}\) cannot be fetched") as raised:
        get(ABSENT, gone, f"{DEAD}/a.git", clone)
    faults = raised.value.output.splitlines()
    assert [fault.partition(": ")[0] for fault in faults] == [gone, f"{DEAD}/a.git", str(clone)]
    assert VARIABLE in raised.value.next_step
    assert raised.value.log is not None
    assert raised.value.log.is_file()
    assert list((store.root / "thing").iterdir()) == []


def test_without_git_that_is_told(get: Get, learn: Learn, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = tagged(clone)
    monkeypatch.setenv("PATH", str(clone))
    for ask in (lambda: get(wanted, clone), lambda: learn(clone)):
        with pytest.raises(OneDnnError, match="git does not work here") as raised:
            ask()
        assert raised.value.next_step == "install git"


@pytest.mark.parametrize("annotated", [False, True])
def test_a_tags_commit_is_learnt(learn: Learn, get: Get, clone: Path, annotated: bool) -> None:
    wanted = tagged(clone)
    if annotated:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
        git(clone, *who, "tag", "--force", "--annotate", "--message=v1", "v1", wanted)
        assert git(clone, "rev-parse", "v1") != wanted
    assert learn(f"{DEAD}/a.git", clone) == wanted
    assert (get(wanted, clone) / "src" / "a.cpp").read_text() == "one\n"


def test_a_tag_is_asked_for_again_and_else_as_it_was(learn: Learn, clone: Path) -> None:
    before = learn(clone)
    git(clone, "tag", "--force", "v1", "HEAD")
    after = learn(clone)
    assert after == tagged(clone) != before
    clone.rename(clone.with_name("gone"))
    assert learn(clone) == after


def test_a_repository_without_the_tag_is_passed_over(learn: Learn, clone: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a").write_text("a\n")
    commit(other)
    with pytest.raises(OneDnnError, match="Thing v1 cannot be fetched") as raised:
        learn(other)
    assert raised.value.output == f"{other}: it has no tag v1"
    assert learn(other, clone) == tagged(clone)
