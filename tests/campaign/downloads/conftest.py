"""What every attack by a server is judged by: only pinned bytes, only in their place, in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cpuwheels.core.errors import CpuwheelsError, DownloadError
from cpuwheels.core.store import Store, check_entry
from cpuwheels.fetch.download import download, fetch
from pinned_file import SHORT, pinned
from untouched import snapshot

SECONDS = 15

Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuwheels.fetch.download.time", SimpleNamespace(sleep=lambda _: None))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a store in it, and files of a user."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("what was there before")
    return home


@pytest.fixture
def cache(home: Path) -> Store:
    return Store(home / "store")


@pytest.fixture
def untouched(home: Path, cache: Store) -> Iterator[None]:
    """See that nothing besides the store's downloads changes, and that what is there is sound."""
    sound = cache.get("sources", "0" * 24, lambda folder: (folder / "file").write_text("sound") and None)
    ours = (cache.root / "downloads", cache.root / "locks")
    there = snapshot(home, *ours)
    yield
    assert snapshot(home, *ours) == there
    assert check_entry(sound) == []
    for entry in (cache.root / "downloads").glob("*"):
        assert not entry.name.startswith(".")
        assert check_entry(entry) == []
        assert [path.name for path in entry.iterdir() if path.name.startswith(".part")] == []


@pytest.fixture
def refused(cache: Store, home: Path, untouched: None) -> Refused:
    """Fetches a file, which has to end with an error of a given class, in time, and to leave nothing."""
    del untouched

    def judge(*urls: str, error: type[CpuwheelsError] = DownloadError, once: bool = False, **pin: object) -> str:
        began = time.monotonic()
        file = pinned(*urls, **pin)  # type: ignore[arg-type]
        with pytest.raises(CpuwheelsError) as raised:
            fetch(file, cache, patience=SHORT)
        assert type(raised.value) is error
        assert raised.value.next_step
        assert time.monotonic() - began < SECONDS
        assert list((cache.root / "downloads").glob("*")) == []
        if once:
            return str(raised.value)
        old = home / "old"
        old.write_text("an older download")
        with pytest.raises(error):
            download(file, old, patience=SHORT)
        assert old.read_text() == "an older download"
        old.unlink()
        return str(raised.value)

    return judge
