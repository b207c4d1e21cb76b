"""Folders that appear as a whole; what else is written and removed, the tests of the store cover."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.filesystem import appearing


def test_a_folder_appears_as_a_whole_and_not_at_all_if_its_block_fails(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "place"
    with appearing(place) as fresh:
        (fresh / "one").write_text("1")
        assert not place.exists()
    assert [path.name for path in place.iterdir()] == ["one"]
    (place.parent / ".new-place").mkdir()
    (place.parent / ".new-place" / "left").touch()  # of a run that was killed

    def fail() -> None:
        with appearing(place) as fresh:
            (fresh / "two").write_text("2")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert [path.name for path in place.parent.iterdir()] == ["place"]
    assert [path.name for path in place.iterdir()] == ["one"]
    with appearing(place) as fresh:
        (fresh / "two").write_text("2")
    assert [path.name for path in place.iterdir()] == ["two"]
