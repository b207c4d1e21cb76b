"""A commit's files: none outside, none in place of this program's own, and the bytes that git checks out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.core.errors import OneDnnError, SourceError, UnsuitableSourceError
from cpuwheels.fetch.git_archive import GitSource, get_commit
from cpuwheels.source.patched import prepare_source
from cpuwheels.source.upstream_pins import read_pins
from cpuwheels.source.worktree import TreeRequest
from hostile_git import PROFILE, commit_of_tree, raw_object
from sample_source import commit, git

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from hostile_git import Get


def refused(get: Get, clone: Path, wanted: str, words: str) -> None:
    """Check that a commit is refused from a clone and from a remote, and that nothing is left of it."""
    git(clone, "update-ref", "refs/heads/evil", wanted)
    for place in ((clone,), (None, clone)):
        with pytest.raises(SourceError, match=words):
            get(wanted, *place)
    source = get("main", clone)
    assert (source.folder / "setup.py").read_text() == "two\n"
    assert len(list(source.folder.parent.glob("[!.]*"))) == 1


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(".git", "no name of a file|hasDotgit", id="28-dot-git"),
        pytest.param(".GiT", "no name of a file|hasDotgit", id="29-dot-git-in-capitals"),
        pytest.param("..", "no name of a file|hasDotdot", id="30-dot-dot"),
    ],
)
def test_a_folder_that_no_tree_may_have(path: str, words: str, get: Get, clone: Path) -> None:
    blob = raw_object(clone, "blob", b"[core]\n fsmonitor = touch executed\n")
    tree = raw_object(clone, "tree", b"100644 config\0" + bytes.fromhex(blob))
    refused(get, clone, commit_of_tree(clone, [("40000", path, tree)]), words)
    assert not (clone.parent / "config").exists()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param("link", "/etc/passwd", id="31-absolute"),
        pytest.param("link", "../.profile", id="32-out-of-the-tree"),
        pytest.param("csrc/link", "cpu/../../../.profile", id="33-out-of-the-tree-from-below"),
        pytest.param("requirements/cpu.txt", "../../.profile", id="34-requirements"),
        pytest.param(".cpuwheels-patches.json", "{home}/.profile", id="35-notes-of-patches"),
        pytest.param(".CPUwheels-Patches.json", "setup.py", id="36-notes-of-patches-in-capitals"),
        pytest.param(".cpuwheels-epoch", "setup.py", id="37-time"),
    ],
)
def test_a_link(name: str, target: str, get: Get, clone: Path, home: Path) -> None:
    first = git(clone, "rev-parse", "HEAD")
    (clone / name).unlink(missing_ok=True)
    (clone / name).symlink_to(target.format(home=home))
    wanted = commit(clone)
    git(clone, "reset", "--quiet", "--hard", first)
    refused(get, clone, wanted, "has a file that may not be in a source")
    assert (home / ".profile").read_text() == PROFILE


def test_38_a_link_through_a_link(get: Get, clone: Path) -> None:
    first = git(clone, "rev-parse", "HEAD")
    (clone / "csrc" / "top").symlink_to("..")
    (clone / "link").symlink_to("csrc/top/../.profile")
    wanted = commit(clone)
    git(clone, "reset", "--quiet", "--hard", first)
    refused(get, clone, wanted, "'link' is a link to 'csrc/top/../.profile', which is outside")


def test_39_links_within_the_tree_are_kept(get: Get, clone: Path, store: Store, reporter: Reporter) -> None:
    (clone / "requirements" / "cpu.txt").rename(clone / "requirements" / "real.txt")
    (clone / "requirements" / "cpu.txt").symlink_to("real.txt")
    (clone / "vllm" / "requirements").symlink_to("../requirements")
    commit(clone)
    for source in (get("main", clone), get("main", None, clone), TreeRequest(clone).get(store, reporter)):
        assert (source.folder / "vllm" / "requirements").readlink() == Path("../requirements")
        assert read_pins(source.folder, {"platform_machine": "x86_64"}).torch == "2.13.0"


def test_40_names_that_differ_in_capitals_only(get: Get, clone: Path) -> None:
    blob = raw_object(clone, "blob", b"another setup.py\n")
    wanted = commit_of_tree(clone, [("100644", "SETUP.py", blob)])
    refused(get, clone, wanted, "are one name where capital letters do not count")


def test_41_a_patch_note_that_is_there_already(
    get: Get, clone: Path, tmp_path: Path, store: Store, reporter: Reporter, home: Path
) -> None:
    """An older store may have a source that has been taken in before names were checked."""
    source = get("main", clone)
    (source.folder / ".cpuwheels-patches.json").symlink_to(home / ".profile")
    (home / "patches").mkdir()
    context = build_context(tmp_path, root=home, store=store, reporter=reporter)
    prepared = prepare_source(context, source, [])
    assert not (prepared.folder / ".cpuwheels-patches.json").is_symlink()
    assert json.loads((prepared.folder / ".cpuwheels-patches.json").read_text()) == []


ATTRIBUTES = "*.bat eol=crlf\n*.id ident\nsubst.txt export-subst\nleft.txt export-ignore\n*.sh text eol=lf\n"


@pytest.fixture
def attributed(clone: Path) -> Path:
    """The clone with files that git changes when it checks them out, and others that `git archive` would change."""
    (clone / ".gitattributes").write_text(ATTRIBUTES)
    for name, text in {
        "a.bat": "one\ntwo\n",
        "b.id": "$Id$\n",
        "subst.txt": "$Format:%H$\n",
        "left.txt": "left\n",
        "c.sh": "three\n",
    }.items():
        (clone / name).write_text(text)
    commit(clone)
    return clone


@pytest.mark.parametrize(
    "bare", [pytest.param(False, id="42-attributes-of-a-clone"), pytest.param(True, id="43-attributes-of-a-bare-clone")]
)
def test_attributes(bare: bool, get: Get, attributed: Path, tmp_path: Path) -> None:
    if bare:
        git(tmp_path, "clone", "--quiet", "--bare", str(attributed), "bare")
    source = get("main", tmp_path / "bare" if bare else attributed)
    compare(source.folder, attributed, tmp_path)


def test_44_attributes_of_a_remote_and_of_a_project(
    get: Get, attributed: Path, tmp_path: Path, store: Store, reporter: Reporter, logs: Path
) -> None:
    compare(get("main", None, attributed).folder, attributed, tmp_path)
    thing = GitSource("Thing", "thing", "main", (str(attributed),), "VARIABLE", OneDnnError)
    wanted = git(attributed, "rev-parse", "main")
    compare(get_commit(thing, wanted, store=store, reporter=reporter, logs=logs), attributed, tmp_path)


def compare(folder: Path, clone: Path, tmp_path: Path) -> None:
    """Compare files with what git itself checks out in a fresh clone."""
    fresh = tmp_path / f"fresh-{folder.name}"
    git(tmp_path, "clone", "--quiet", str(clone), str(fresh))
    for name in ("a.bat", "b.id", "subst.txt", "left.txt", "c.sh", "setup.py"):
        assert (folder / name).read_bytes() == (fresh / name).read_bytes(), name
    assert (folder / "a.bat").read_bytes() == b"one\r\ntwo\r\n"
    assert (folder / "b.id").read_text().startswith("$Id: ")


def test_45_attributes_that_are_in_no_commit(get: Get, clone: Path, home: Path) -> None:
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "attributes").write_text("*.py eol=crlf\n")
    assert (get("main", clone).folder / "setup.py").read_bytes() == b"two\n"
    (clone / ".git" / "info" / "attributes").write_text("# none\n*.py eol=crlf\n")
    with pytest.raises(SourceError, match="changes what is checked out"):
        get("v0.32.0", clone)


def test_46_a_project_with_a_link_outside(clone: Path, store: Store, reporter: Reporter, logs: Path) -> None:
    (clone / "link").symlink_to("/etc/passwd")
    wanted = commit(clone)
    thing = GitSource("Thing", "thing", "main", (str(clone),), "VARIABLE", OneDnnError)
    with pytest.raises(OneDnnError, match="has a file that may not be in a source"):
        get_commit(thing, wanted, store=store, reporter=reporter, logs=logs)
    assert not list((store.root / "thing").glob("[!.]*"))


def test_47_a_tree_of_this_machine(clone: Path, store: Store, reporter: Reporter, home: Path) -> None:
    (clone / "data").symlink_to(home)
    with pytest.raises(UnsuitableSourceError, match="it has to be relative"):
        TreeRequest(clone).get(store, reporter)
    (clone / "data").unlink()
    assert TreeRequest(clone).get(store, reporter).commit
