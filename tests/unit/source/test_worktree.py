from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from cpuwheels.core.errors import SourceError, UnsuitableSourceError
from cpuwheels.core.sealed_entry import MANIFEST, check_entry
from cpuwheels.source.version import Described
from cpuwheels.source.worktree import TreeRequest, check_tree, tree_version
from sample_source import EPOCH, commit, git, write_tree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

pytestmark = pytest.mark.usefixtures("plain_git")

INFO = {"PKG-INFO": "Metadata-Version: 2.4\nName: vllm\nVersion: 0.32.0\n"}


@pytest.fixture(autouse=True)
def no_scm_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what whoever runs the tests says to setuptools-scm out of them."""
    for name in [name for name in os.environ if name.startswith("SETUPTOOLS_SCM_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose last commit is tagged v0.32.0."""
    folder = write_tree(tmp_path / "vllm", {".gitignore": "*.o\nbuild/\n"})
    commit(folder)
    git(folder, "tag", "v0.32.0")
    return folder


@pytest.mark.parametrize(
    "lost",
    [
        ["CMakeLists.txt"],
        ["setup.py"],
        ["requirements/cpu.txt"],
        ["csrc/cpu/cpu_attn.cpp", "csrc/cpu/ops.cpp", "csrc/cpu/torch_bindings.cpp"],
        ["setup.py", "vllm/__init__.py"],
    ],
)
def test_missing_parts_are_named(tmp_path: Path, lost: Sequence[str]) -> None:
    folder = write_tree(tmp_path / "vllm", dict.fromkeys(lost))
    with pytest.raises(SourceError, match="is not a vLLM source tree") as raised:
        check_tree(folder)
    for name in lost:
        assert re.sub(r"/(cpu_attn|ops|torch_bindings)\.cpp$|/__init__\.py$", "", name) in raised.value.what
    assert raised.value.next_step


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no folder"):
        check_tree(tmp_path / "gone")


def _nothing(_: Path) -> None:
    pass


def _edit(folder: Path) -> None:
    (folder / "setup.py").write_text("changed\n")


def _commit(folder: Path) -> None:
    commit(folder)


def _newer_crate_tag(folder: Path) -> None:
    commit(folder)
    git(folder, "tag", "proto-v0.3.0")


def _untracked(folder: Path) -> None:
    (folder / "notes.txt").write_text("")


@pytest.mark.parametrize(
    ("change", "version"),
    [
        (_nothing, "0.32.0"),
        (_untracked, "0.32.0"),
        (_edit, "0.32.1.dev0+g{hash}.dirty"),
        (_commit, "0.32.1.dev1+g{hash}"),
        (_newer_crate_tag, "0.32.1.dev1+g{hash}"),
    ],
    ids=["at the tag", "untracked file", "dirty", "one commit on", "crate tag"],
)
def test_a_checkouts_version(checkout: Path, change, version: str) -> None:
    change(checkout)
    described = tree_version(checkout)
    found, how = described.version, described.version_from
    head = git(checkout, "rev-parse", "HEAD")
    public, _, local = found.partition("+")
    wanted_public, _, wanted_local = version.partition("+")
    assert public == wanted_public
    if wanted_local:
        name = local.removesuffix(".dirty").removeprefix("g")
        assert len(name) >= 7
        assert head.startswith(name)
        assert local.endswith(".dirty") == wanted_local.endswith(".dirty")
    else:
        assert local == ""
    assert Version(found)
    assert described.commit == (None if found.endswith(".dirty") else head)
    assert "v0.32.0-" in how


def test_a_dirty_checkout_has_the_same_version_tomorrow(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _edit(checkout)
    today = tree_version(checkout)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH + 10**7))
    assert tree_version(checkout) == today


def test_a_checkout_without_release_tags_says_so(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "vllm")
    head = commit(folder)
    git(folder, "tag", "proto-v0.3.0")
    described = tree_version(folder)
    assert Version(described.version).is_devrelease
    assert head[:7] in described.version
    assert "no release tag found" in described.version_from


def test_an_sdists_version(tmp_path: Path) -> None:
    assert tree_version(write_tree(tmp_path, INFO)) == Described("0.32.0", "PKG-INFO")


@pytest.mark.parametrize(
    "info", [None, "Name: vllm\n", "Version: of the day\n"], ids=["none", "no version", "no PEP 440"]
)
def test_without_git_and_sdist_there_is_no_version(tmp_path: Path, info: str | None) -> None:
    with pytest.raises(SourceError, match="cannot tell the version") as raised:
        tree_version(write_tree(tmp_path / "vllm", {"PKG-INFO": info}))
    assert raised.value.next_step


def test_a_repository_around_an_sdist_is_not_taken_for_its_own(
    tmp_path: Path, store: Store, reporter: Reporter
) -> None:
    folder = write_tree(tmp_path / "outer" / "vllm", INFO)
    commit(tmp_path / "outer")
    os.utime(folder / "setup.py", (EPOCH + 2**30, EPOCH + 2**30))
    source = TreeRequest(folder).get(store, reporter)
    assert (source.version, source.epoch) == ("0.32.0", EPOCH + 2**30)


def test_a_snapshot_is_not_changed_by_later_edits(checkout: Path, store: Store, reporter: Reporter) -> None:
    before = TreeRequest(checkout).get(store, reporter)
    _edit(checkout)
    assert (before.folder / "setup.py").read_text() == ""
    after = TreeRequest(checkout).get(store, reporter)
    assert (after.folder / "setup.py").read_text() == "changed\n"
    assert after.folder != before.folder
    assert after.version != before.version
    assert before.epoch == EPOCH
    assert git(checkout, "status", "--porcelain") == "M setup.py"


def test_the_same_tree_is_the_same_source(checkout: Path, store: Store, reporter: Reporter) -> None:
    first = TreeRequest(checkout).get(store, reporter)
    os.utime(checkout / "setup.py")
    assert TreeRequest(checkout).get(store, reporter) == first


def test_a_tree_with_a_file_of_the_stores_own_name_is_refused(checkout: Path, store: Store, reporter: Reporter) -> None:
    (checkout / MANIFEST).write_text("{}")
    commit(checkout)
    for _ in range(2):
        with pytest.raises(
            UnsuitableSourceError, match=rf"{MANIFEST}': names at the top that begin with \.cpuwheels- are"
        ):
            TreeRequest(checkout).get(store, reporter)
    (checkout / "tests").mkdir()
    (checkout / MANIFEST).rename(checkout / "tests" / MANIFEST)
    commit(checkout)
    folder = TreeRequest(checkout).get(store, reporter).folder
    assert check_entry(folder) == []
    assert (folder / "tests" / MANIFEST).read_text() == "{}"


def test_a_snapshot_takes_what_did_not_change_from_the_one_before(
    checkout: Path, store: Store, reporter: Reporter
) -> None:
    (checkout / "link").symlink_to("setup.py")
    before = TreeRequest(checkout).get(store, reporter).folder
    (checkout / "csrc/cpu/ops.cpp").write_text("// changed\n")
    after = TreeRequest(checkout).get(store, reporter).folder
    assert (after / "csrc/cpu/ops.cpp").read_text() == "// changed\n"
    assert (after / "setup.py").samefile(before / "setup.py")
    assert not (after / "setup.py").samefile(checkout / "setup.py")
    assert (after / "link").is_symlink()
    assert check_entry(before) == check_entry(after) == []


def test_nothing_is_taken_from_a_damaged_snapshot(checkout: Path, store: Store, reporter: Reporter) -> None:
    before = TreeRequest(checkout).get(store, reporter).folder
    (before / "setup.py").write_text("damaged\n")
    (checkout / "csrc/cpu/ops.cpp").write_text("// changed\n")
    after = TreeRequest(checkout).get(store, reporter).folder
    assert (after / "setup.py").read_text() == (checkout / "setup.py").read_text()
    assert check_entry(after) == []


def test_a_file_that_changes_while_the_tree_is_read_is_told(
    checkout: Path, store: Store, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copy2

    def late(source: str, target: str, *, follow_symlinks: bool) -> None:
        if source.endswith("/setup.py"):
            (checkout / "setup.py").write_text("written meanwhile\n")
        copy(source, target, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(shutil, "copy2", late)
    with pytest.raises(SourceError, match=r"setup\.py was changed while the tree was read"):
        TreeRequest(checkout).get(store, reporter)
    assert store.latest("sources") is None


def test_a_file_that_vanishes_while_the_tree_is_read_is_told(
    checkout: Path, store: Store, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpuwheels.source.worktree._source_files", lambda _: ["setup.py", "gone.py"])
    monkeypatch.setattr("cpuwheels.source.worktree._epoch", lambda *_: 1)
    with pytest.raises(SourceError, match=r"cannot read .*gone\.py"):
        TreeRequest(checkout).get(store, reporter)


def test_ignored_files_are_left_out_and_untracked_ones_taken(checkout: Path, store: Store, reporter: Reporter) -> None:
    for name in ("build/x", "csrc/cpu/ops.o", "csrc/cpu/new file ä.cpp"):
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text("")
    (checkout / "requirements" / "link.txt").symlink_to("cpu.txt")
    (checkout / "tools").symlink_to("csrc")
    (checkout / "dangling").symlink_to("nowhere")
    (checkout / "vllm" / "__init__.py").unlink()
    (checkout / "vllm" / "a.py").write_text("")
    folder = TreeRequest(checkout).get(store, reporter).folder
    assert (folder / "csrc" / "cpu" / "new file ä.cpp").is_file()
    assert (folder / "requirements" / "link.txt").readlink().name == "cpu.txt"
    assert (folder / "tools").readlink().name == "csrc"
    assert (folder / "dangling").readlink().name == "nowhere"
    for absent in ("build", "csrc/cpu/ops.o", ".git", "vllm/__init__.py"):
        assert not (folder / absent).exists()


def test_leftovers_of_an_sdist_are_left_out(tmp_path: Path, store: Store, reporter: Reporter) -> None:
    leftovers = ["build/x.o", "dist/a.whl", ".venv/bin/python", "vllm/__pycache__/a.pyc"]
    folder = write_tree(tmp_path / "vllm", INFO | dict.fromkeys(leftovers, "") | {"vllm/data/a.json": "{}"})
    (folder / "tools").symlink_to("csrc")
    copy = TreeRequest(folder).get(store, reporter).folder
    assert (copy / "vllm" / "data" / "a.json").is_file()
    assert (copy / "tools").readlink().name == "csrc"
    assert not [name for name in leftovers if (copy / name).exists()]
