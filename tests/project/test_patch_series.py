"""The project's own patches: that they can be read, and that the series and the folder name the same ones."""

from __future__ import annotations

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.patch_series import Patch, load_series
from cpuwheels.source.patches import read_hunks
from layout import ROOT

PATCHES = load_series(ROOT).patches


def test_the_series_names_each_file_once() -> None:
    named = [patch.file for patch in PATCHES]
    assert sorted(named) == sorted(path.name for path in (ROOT / "patches").glob("*.patch"))
    assert named == sorted(named)


def test_they_are_for_targets_that_there_are() -> None:
    known = {target.id for target in load_matrix(ROOT).targets}
    assert {target for patch in PATCHES for target in patch.targets} <= known


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.file)
def test_each_can_be_read_and_changes_something(patch: Patch) -> None:
    hunks = read_hunks(ROOT / "patches" / patch.file)
    assert all(hunk.old != hunk.new and hunk.old.strip() and hunk.new.strip() for hunk in hunks)
