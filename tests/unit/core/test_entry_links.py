"""Entries in other stores of this machine."""

from __future__ import annotations

from pathlib import Path

from cpuwheels.core.entry_links import link_entries
from cpuwheels.core.store import Store


def fill(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "a").write_text("a")
    (folder / "link").symlink_to("sub/a")


def test_movable_kinds_can_be_in_other_stores_too(store: Store, tmp_path: Path) -> None:
    store.get("downloads", "key", fill)
    store.get("toolchains", "key", fill)
    for _ in range(2):
        link_entries(store.root, ["downloads", "toolchains"], tmp_path / "other")
    other = Store(tmp_path / "other")
    assert other.find("downloads", "key") is not None
    assert other.find("toolchains", "key") is None  # it may hold its own path
