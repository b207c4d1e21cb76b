"""Power cuts at every step of a change of the index: every link holds at once, and the next publisher finishes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from attacked_index import files
from cpuwheels.core import filesystem
from cpuwheels.index import bucket
from cpuwheels.index.bucket import HIDDEN, Folder
from cpuwheels.index.commit_pages import Missing, Row
from cpuwheels.index.publish import note_missing, publish
from cpuwheels.index.retention import remove_old
from index_publications import check_links, publication
from power_cut import PowerCuts, without

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


CUT = r"cut \d+ of \d+, after"


@pytest.fixture
def cuts(tmp_path: Path) -> PowerCuts:
    return PowerCuts(tmp_path / "disk")


def index_cuts(cuts: PowerCuts, made: Path, change: Callable[[Folder], object], *, before: int) -> int:
    """Change an index in which some wheels are."""
    root = cuts.folder / "index"
    for number in range(1, before + 1):
        publish(Folder(root), publication(made / str(number), number))
    old = {name: content for name, content in files(cuts.folder).items() if name.endswith((".whl", ".metadata"))}
    with cuts.recording():
        change(Folder(root))
    new = files(root)

    def verify(done: bool) -> None:
        assert check_links(root) > 0 if before or done else True
        there = files(root)
        assert there == new if done else True
        assert all(there.get(name, old[name]) == old[name] for name in old)
        change(Folder(root))
        assert files(root) == new
        assert check_links(root) > 0
        assert [path.name for path in root.glob(f"{HIDDEN}*")] == [bucket.LOCK]

    return cuts.check(verify)


def publication_cuts(cuts: PowerCuts, made: Path, *, before: int) -> int:
    wheel = publication(made / "new", before + 1)
    return index_cuts(cuts, made, lambda folder: publish(folder, wheel), before=before)


def test_59_first_publication(cuts: PowerCuts, tmp_path: Path) -> None:
    assert publication_cuts(cuts, tmp_path, before=0) > 80


def test_60_next_publication(cuts: PowerCuts, tmp_path: Path) -> None:
    assert publication_cuts(cuts, tmp_path, before=2) > 60


def test_61_wheel_that_is_missing(cuts: PowerCuts, tmp_path: Path) -> None:
    missing = Missing(state="failed", reason="it does not compile", tried="2026-11-05T00:00:00Z")
    row = Row(commit=f"{9:040x}", version="", made="2026-11-04T00:00:00Z", missing={"x86": missing})
    assert index_cuts(cuts, tmp_path, lambda folder: note_missing(folder, row), before=1) > 10


def test_62_old_commits_are_removed(cuts: PowerCuts, tmp_path: Path) -> None:
    now = datetime(2026, 11, 13, tzinfo=UTC)
    assert index_cuts(cuts, tmp_path, lambda folder: remove_old(folder, 10, now), before=3) > 30


@pytest.mark.parametrize(
    ("place", "name", "line"),
    [
        pytest.param(Folder, "_unfinished", "os.fsync(handle)", id="63-content-not-synced"),
        pytest.param(Folder, "_put", "sync_folder(place.parent)", id="64-name-not-synced"),
        pytest.param(bucket, "make_folders", "sync_folder(folder.parent)", id="65-folder-not-synced"),
    ],
)
def test_missing_in_the_writing_of_a_page(
    cuts: PowerCuts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: object, name: str, line: str
) -> None:
    """What is checked here is the check: it finds what a copy of the real function lacks."""
    real = getattr(filesystem if place is bucket else place, name)
    monkeypatch.setattr(place, name, without(real, line))
    with pytest.raises(AssertionError, match=CUT):
        publication_cuts(cuts, tmp_path, before=1)
