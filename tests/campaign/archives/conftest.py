"""What every attack by an archive is judged by: nothing outside changed, one message, in bounded time and space."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from cpuwheels.core.errors import CpuwheelsError, SourceError, ToolchainError, UnsafeArchiveError
from cpuwheels.core.limits import ArchiveLimits
from cpuwheels.core.store import Store, check_entry
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.fetch.debian.deb import unpack_deb
from cpuwheels.fetch.tarball import unpack_tar
from untouched import snapshot

LIMITS = ArchiveLimits(members=2000, size=4 << 20, member=2 << 20, table=1 << 18)
"""As the real ones, for archives that a test can write."""

SECONDS, MEMORY = 20, 96 << 20

Unpack = Callable[[Path, Path], object]
Refused = Callable[..., str]


def unpack_wheel(file: Path, folder: Path) -> None:
    with open_zip(file, limits=LIMITS) as archive:
        archive.extract(folder)


SITES: dict[str, tuple[str, Unpack, type[CpuwheelsError]]] = {
    "tar": ("vllm-1.tar.gz", lambda file, folder: unpack_tar(file, folder, LIMITS), SourceError),
    "deb": ("gcc.deb", lambda file, folder: unpack_deb(file, folder, limits=LIMITS), ToolchainError),
    "wheel": ("vllm-1-py3-none-any.whl", unpack_wheel, UnsafeArchiveError),
}


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """Unpacks an archive into a store, and checks that this ends with one message and changes nothing."""
    home = tmp_path / "home"
    (home / "user").mkdir(parents=True)
    for name in ("evil", "user/evil", "passwd"):
        (home / name).write_text("what was there before")
    store = Store(home / "store")
    sound = store.get("sources", "0" * 24, lambda folder: (folder / "file").write_text("sound") and None)

    def judge(site: str, data: bytes, *, damaged: bool = False, before: Callable[[Path], None] | None = None) -> str:
        name, unpack, of_damaged = SITES[site]
        archive = tmp_path / name
        archive.write_bytes(data)

        def make(folder: Path) -> None:
            if before is not None:
                before(folder)
            unpack(archive, folder)

        ours = (store.root / "attacked", store.root / "locks")
        there = snapshot(home, *ours)
        began = time.monotonic()
        tracemalloc.start()
        try:
            with pytest.raises(CpuwheelsError) as raised:
                store.get("attacked", "1" * 24, make)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert type(raised.value) is (of_damaged if damaged else UnsafeArchiveError)
        assert raised.value.next_step
        assert raised.value.where == str(archive)
        message = str(raised.value)
        assert all(line.isprintable() for line in message.splitlines())
        assert len(message.splitlines()) == 3
        assert len(message) < 2000
        assert time.monotonic() - began < SECONDS
        assert peak < MEMORY
        assert snapshot(home, *ours) == there
        assert check_entry(sound) == []
        assert list((store.root / "attacked").iterdir()) == []
        return message

    return judge


@pytest.fixture
def accepted(tmp_path: Path) -> Callable[[str, bytes], Path]:
    """Unpacks an archive that is odd and may be unpacked."""

    def unpack(site: str, data: bytes) -> Path:
        name, function, _ = SITES[site]
        (tmp_path / name).write_bytes(data)
        function(tmp_path / name, tmp_path / "out")
        return tmp_path / "out"

    return unpack
