"""Old wheels are taken out; what is still referred to stays."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cpuwheels.index.bucket import Folder
from cpuwheels.index.commit_pages import Missing, Row
from cpuwheels.index.publish import note_missing, publish
from cpuwheels.index.reading import read_entries
from cpuwheels.index.retention import remove_old
from index_publications import Dying, DyingError, check_links, publication

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def commit(number: int) -> str:
    return f"{number:040x}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Commits of the 1st, 5th and 15th of a month, and a release of the 1st; the newest for Arm is of the 5th."""
    folder = tmp_path / "index"
    for number, target in ((1, "x86"), (1, "arm"), (5, "x86"), (5, "arm"), (15, "x86")):
        publish(Folder(folder), publication(tmp_path / "dist", number, target))
    one = publication(tmp_path / "release", 1, content="release")
    release = one.entry.model_copy(update={"version": "0.32.0+cpu", "commit": None})
    publish(Folder(folder), replace(one, entry=release, nightly=False))
    return folder


def test_only_commits_that_are_old_and_not_the_newest_go(root: Path) -> None:
    assert remove_old(Folder(root), 10, NOW) == [commit(1)]
    assert check_links(root) > 0
    assert not list((root / commit(1)).rglob("*.*"))
    assert [one.target for one in read_entries(Folder(root), commit(5))] == ["arm", "x86"]
    assert read_entries(Folder(root), "0.32.0")
    commits = json.loads((root / "commits.json").read_text())
    assert [row["commit"] for row in commits["newest"]] == [commit(15), commit(5), None]
    assert commits["days"] == ["2026-11-15", "2026-11-05", "2026-11-01"]  # the release is of that day
    assert len(list(root.glob("files/*/*.whl"))) == 4


def test_what_could_not_be_made_is_forgotten_too(root: Path) -> None:
    why = Missing(state="failed", reason="does not compile", tried="2026-11-02T00:00:00Z")
    for number in (2, 16):
        row = Row(commit=commit(number), version="", made=f"2026-11-{number:02}T10:00:00Z", missing={"x86": why})
        note_missing(Folder(root), row)
    assert (root / "commits" / "2026-11-02.json").is_file()
    remove_old(Folder(root), 15, NOW)
    assert not (root / "commits" / "2026-11-02.json").exists()
    listed = [row["commit"] for row in json.loads((root / "commits.json").read_text())["newest"]]
    assert commit(16) in listed
    assert commit(2) not in listed


def test_nothing_is_old(root: Path) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert remove_old(Folder(root), 60, NOW) == []
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_links_hold_whenever_it_is_interrupted(root: Path, tmp_path: Path) -> None:
    for at in range(40):
        copy = tmp_path / f"died{at}"
        shutil.copytree(root, copy)
        dying = Dying(copy, at)
        try:
            remove_old(dying, 10, NOW)
        except DyingError:
            check_links(copy)
        else:
            break
    else:
        pytest.fail("it makes more changes than were tried")
    assert at > 5
