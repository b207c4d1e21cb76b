"""The folder of reports, which is looked at before a test begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import StoreError
from cpuwheels.verification.parity.reports import prepare_folder

if TYPE_CHECKING:
    from pathlib import Path


def test_a_chosen_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert prepare_folder(folder, tmp_path / "a.whl") == folder
    assert list(folder.iterdir()) == []


def test_reports_are_next_to_the_wheel_otherwise(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"")
    assert prepare_folder(None, tmp_path / "a.whl") == tmp_path
    assert prepare_folder(None, tmp_path / "not there" / "a.whl") == tmp_path / "not there"
    assert [path.name for path in tmp_path.iterdir()] == ["a.whl"]


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError) as raised:
        prepare_folder(tmp_path / "file" / "out", tmp_path / "a.whl")
    assert raised.value.next_step == "make the folder writable, or pass --out"
