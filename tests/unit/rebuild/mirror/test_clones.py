"""Repositories of a mirror: a build can fetch from them what it would from the network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import MirrorError, OneDnnError
from cpuwheels.core.store import Store
from cpuwheels.fetch.git_archive import GitSource, get_commit
from cpuwheels.rebuild.mirror.clones import keep_commit, keep_program
from cpuwheels.rebuild.mirror.wanted import WantedCommit
from cpuwheels.source.clone import Project, remote_repository
from tiny_project import commit_all


@pytest.fixture
def upstream(tmp_path: Path) -> tuple[Path, str, str]:
    """A repository, and its first and last commits; the last has the tag v2."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    commits = []
    for number in (1, 2):
        (folder / "file").write_text(str(number))
        commits.append(commit_all(folder, str(number), tag=f"v{number}"))
    return folder, commits[0], commits[1]


def test_a_kept_commit_is_fetched_as_by_a_build(
    upstream: tuple[Path, str, str], tmp_path: Path, store: Store, reporter: Reporter
) -> None:
    folder, first, _ = upstream
    wanted = WantedCommit("onednn", first, "v1", ())
    kept = keep_commit(tmp_path / "mirror", wanted, [str(tmp_path / "nowhere"), str(folder)])
    assert (kept.place, kept.commits, kept.sha256) == ("git/onednn.git", (first,), None)
    folder.rename(tmp_path / "gone")
    assert keep_commit(tmp_path / "mirror", wanted, [str(folder)]) == kept
    place = str(tmp_path / "mirror" / kept.place)
    source = GitSource("oneDNN", "onednn", "v1", (place,), "X", OneDnnError)
    tree = get_commit(source, first, store=store, reporter=reporter, logs=tmp_path / "logs")
    assert (tree / "file").read_text() == "1"


def test_a_commit_that_nobody_has(upstream: tuple[Path, str, str], tmp_path: Path) -> None:
    with pytest.raises(MirrorError, match="cannot be fetched") as caught:
        keep_commit(tmp_path / "mirror", WantedCommit("onednn", "1" * 40, "v9", ()), [str(upstream[0])])
    assert str(upstream[0]) in caught.value.output


def test_the_bundle_has_the_history_of_the_program(
    upstream: tuple[Path, str, str], tmp_path: Path, store: Store, reporter: Reporter
) -> None:
    folder, first, last = upstream
    kept = keep_program(tmp_path / "mirror", str(folder), last)
    bundle = tmp_path / "mirror" / kept.place
    assert keep_program(tmp_path / "mirror", str(tmp_path / "nowhere"), last) == kept
    subprocess.run(["git", "clone", "--quiet", bundle, tmp_path / "clone"], check=True, capture_output=True)
    assert (tmp_path / "clone/file").read_text() == "2"
    found = remote_repository(
        [str(bundle)], [first], store=store, reporter=reporter, project=Project("cpuwheels", "somehow")
    )
    assert found.publishes(first)
    bundle.write_bytes(bundle.read_bytes()[:-20])
    again = keep_program(tmp_path / "mirror", str(folder), last)
    assert again.commits == (last,)
    subprocess.run(["git", "bundle", "verify", bundle], check=True, capture_output=True, cwd=folder)


def test_a_program_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(MirrorError, match="cannot be kept"):
        keep_program(tmp_path / "mirror", str(tmp_path / "nowhere"), "1" * 40)
    assert not list((tmp_path / "mirror/git").iterdir())
