from __future__ import annotations

import hashlib
import importlib.metadata
import os
import random
import zipfile
import zlib
from typing import TYPE_CHECKING

import pytest

import wheel_writer as ww
from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.deflate_cache import Streams, compress, compressor_key, keep_wheel, kept_wheel, latest_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.store import Store

DATA = b"some words, some words" * 1000


def test_an_entry_is_found_by_its_content(tmp_path: Path) -> None:
    wheel = ww.write_good(tmp_path, **{"demo/data.bin": DATA})
    with Streams([wheel]) as streams:
        found = streams.find(ww.digest(DATA), len(DATA))
        assert found is not None
        assert zlib.decompress(found.data, -zlib.MAX_WBITS) == DATA
        assert (found.crc, found.size) == (zlib.crc32(DATA), len(DATA))
        assert streams.find(ww.digest(DATA), len(DATA) + 1) is None
        assert streams.find(ww.digest(b"other"), 5) is None


def test_the_first_wheel_that_has_it_counts(tmp_path: Path) -> None:
    one = ww.write_good(tmp_path / "one", **{"demo/a": DATA})
    two = ww.write_good(tmp_path / "two", **{"demo/a": DATA, "demo/b": b"b"})
    with Streams([one, two]) as streams:
        assert streams.find(ww.digest(DATA), len(DATA)) is not None
        assert streams.find(ww.digest(b"b"), 1) is not None


def test_what_was_cut_short_is_not_taken(tmp_path: Path) -> None:
    wheel = ww.write_good(tmp_path, **{"demo/data.bin": DATA})
    with zipfile.ZipFile(wheel) as archive:
        start = archive.getinfo("demo/data.bin").header_offset
    content = wheel.read_bytes()
    for damaged in (
        content[:start] + b"XX" + content[start + 2 :],
        content[: start + 10],  # a part of the header
        content[: start + 50],  # a part of the data after it
    ):
        wheel.write_bytes(content)
        with Streams([wheel]) as streams:
            wheel.write_bytes(damaged)
            assert streams.find(ww.digest(DATA), len(DATA)) is None


def test_entries_that_are_not_deflated_are_not_taken(tmp_path: Path) -> None:
    record = f"demo/a,{ww.digest(b'a')},1\n{ww.INFO}/RECORD,,\n".encode()
    wheel = ww.write_raw(tmp_path / "x.whl", {"demo/a": b"a", f"{ww.INFO}/RECORD": record})
    with Streams([wheel]) as streams:
        assert streams.find(ww.digest(b"a"), 1) is None


def test_a_file_that_is_no_wheel_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"PK")
    with pytest.raises(WheelError, match="is no wheel"):
        Streams([tmp_path / "x.whl"])


def test_the_first_wheel_with_some_binaries_is_kept(tmp_path: Path, store: Store) -> None:
    assert kept_wheel(store, "key") is None
    first = ww.write_good(tmp_path / "first")
    keep_wheel(store, "key", first)
    keep_wheel(store, "key", ww.write_good(tmp_path / "second", **{"demo/a": b"a"}))
    kept = kept_wheel(store, "key")
    assert kept is not None
    assert kept.read_bytes() == first.read_bytes()
    assert kept_wheel(store, "other") is None


def test_the_wheel_that_was_kept_last_is_found_unless_another_compressor_made_it(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert latest_wheel(store) is None
    wheels = [ww.write_good(tmp_path / name, **{"demo/a": name.encode()}) for name in ("first", "second")]
    for wheel in wheels:
        keep_wheel(store, wheel.parent.name, wheel)
    kept = kept_wheel(store, "second")
    assert kept is not None
    os.utime(kept.parent, (1, 1))
    latest = latest_wheel(store)
    assert latest is not None
    assert latest.read_bytes() == wheels[0].read_bytes()
    monkeypatch.setattr("cpuwheels.wheel.deflate_cache.LEVEL", 6)
    assert latest_wheel(store) is None


def test_another_compressor_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = compressor_key()
    assert compressor_key() == key
    with monkeypatch.context() as patch:
        patch.setattr("cpuwheels.wheel.deflate_cache.deflate_compress", lambda content, level: content[:level])
        other_bytes = compressor_key()
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", {"deflate": "0.1"}.__getitem__)
        other_version = compressor_key()
    monkeypatch.setattr("cpuwheels.wheel.deflate_cache.LEVEL", 6)
    assert len({key, other_bytes, other_version, compressor_key()}) == 4


@pytest.mark.parametrize("content", [b"", b"a", DATA, bytes(range(256)) * 4, random.Random(1).randbytes(70_000)])
def test_any_reader_unpacks_a_compressed_entry(content: bytes) -> None:
    entry = compress(content)
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    assert inflate.decompress(entry.data) == content
    assert inflate.eof
    assert not inflate.unused_data
    assert (entry.crc, entry.size) == (zlib.crc32(content), len(content))


def test_an_entry_has_the_same_bytes_on_every_machine() -> None:
    words = random.Random(3)
    text = b" ".join(b"word%d" % words.randrange(300) for _ in range(40_000))
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    entry = compress(text)
    assert len(entry.data) < 0.97 * len(packer.compress(text) + packer.flush())
    assert hashlib.sha256(entry.data).hexdigest() == "30d3a8fcc91d2319c3c86cc0bf3dd24be57ecc52c33385bec72e97d7b2d5992c"
