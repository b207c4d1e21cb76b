from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.sandbox.landlock import landlock_rules
from cpuwheels.sandbox.view import Places

READ, LIST, EXECUTE, WRITE, TRUNCATE, MAKE = 1 << 2, 1 << 3, 1, 1 << 1, 1 << 14, 1 << 8


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "file").write_text("")
    return Places({str(tmp_path): True, str(tmp_path / "file"): False, "/usr": False})


def test_what_is_visible_can_be_read_and_only_the_work_folder_written(places: Places, tmp_path: Path) -> None:
    found = landlock_rules(places, 3)
    rules = dict(found["rules"])
    assert rules["/usr"] == READ | LIST | EXECUTE
    assert rules[str(tmp_path)] == found["files"] == (1 << 15) - 1
    assert rules[str(tmp_path / "file")] == READ | EXECUTE, "a file has no rights of a folder"
    writable = {path for path, rights in found["rules"] if rights & WRITE}
    assert writable == {str(tmp_path), "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
    assert not any(rights & (MAKE | TRUNCATE) for path, rights in found["rules"] if path != str(tmp_path))


@pytest.mark.parametrize(
    ("version", "files", "network", "scopes"),
    [(3, 15, 0, 0), (4, 15, 3, 0), (5, 16, 3, 0), (6, 16, 3, 3), (9, 16, 3, 3)],
)
def test_each_version_is_asked_for_what_it_knows(
    places: Places, version: int, files: int, network: int, scopes: int
) -> None:
    found = landlock_rules(places, version)
    assert (found["files"], found["network"], found["scopes"]) == ((1 << files) - 1, network, scopes)
