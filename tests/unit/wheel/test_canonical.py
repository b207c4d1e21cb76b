from __future__ import annotations

import csv
import io
import random
import stat
import zipfile
from typing import TYPE_CHECKING

import pytest

import wheel_writer as ww
from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.canonical import canonicalize, zip_time
from cpuwheels.wheel.deflate_cache import Streams, compress

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("epoch", "moment"),
    [(0, (1980, 1, 1, 0, 0, 0)), (-5, (1980, 1, 1, 0, 0, 0)), (1_700_000_001, (2023, 11, 14, 22, 13, 20))],
)
def test_times_are_utc_even_seconds_from_1980(epoch: int, moment: tuple[int, ...]) -> None:
    assert zip_time(epoch) == moment


def test_the_order_the_times_and_the_modes_of_the_input_do_not_matter(tmp_path: Path) -> None:
    members = ww.content()
    record = {f"{ww.INFO}/RECORD": b"stale"}
    one = ww.write_raw(tmp_path / "one.whl", record | members, external_attr=0o100664 << 16)
    other = ww.write_raw(
        tmp_path / "other.whl",
        {"demo/": b"", **dict(reversed(members.items()))},
        date_time=(2001, 2, 3, 4, 5, 6),
        create_system=0,
        compress_type=zipfile.ZIP_DEFLATED,
    )
    for wheel in (one, other):
        canonicalize(wheel, wheel, epoch=ww.EPOCH)
    assert one.read_bytes() == other.read_bytes()


def test_the_canonical_form(tmp_path: Path) -> None:
    members = ww.content() | {"demo/run": b"#!", "demo-1.0+cpu.data/x": b"1", f"{ww.INFO}/old.json": b"{}"}
    raw = tmp_path / "raw.whl"
    with zipfile.ZipFile(raw, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFREG | (0o770 if name == "demo/run" else 0o600)) << 16
            archive.writestr(info, data)
    target = tmp_path / "out" / ww.NAME
    canonicalize(raw, target, epoch=ww.EPOCH, add={"note.json": b"note"}, leave_out=["old.json"])
    with zipfile.ZipFile(target) as archive:
        infos = archive.infolist()
        record = archive.read(f"{ww.INFO}/RECORD").decode()
        assert archive.read(f"{ww.INFO}/note.json") == b"note"
        assert archive.testzip() is None
    assert [info.filename for info in infos] == [
        "demo-1.0+cpu.data/x",
        "demo/_C.abi3.so",
        "demo/__init__.py",
        "demo/run",
        f"{ww.INFO}/METADATA",
        f"{ww.INFO}/WHEEL",
        f"{ww.INFO}/note.json",
        f"{ww.INFO}/RECORD",
    ]
    assert {info.date_time for info in infos} == {(2023, 11, 14, 22, 13, 20)}
    assert {info.filename for info in infos if info.external_attr >> 16 == 0o100755} == {"demo/run"}
    assert {info.external_attr >> 16 for info in infos} == {0o100644, 0o100755}
    assert {(info.create_system, info.compress_type) for info in infos} == {(3, zipfile.ZIP_DEFLATED)}
    rows = list(csv.reader(io.StringIO(record)))
    assert rows[:-1] == sorted(rows[:-1])
    assert rows[-1] == [f"{ww.INFO}/RECORD", "", ""]
    assert [f"{ww.INFO}/note.json", ww.digest(b"note"), "4"] in rows
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


def test_every_entry_is_what_the_compressor_makes_of_it(tmp_path: Path) -> None:
    words = random.Random(1)
    data = b" ".join(b"word%d" % words.randrange(300) for _ in range(40_000))
    wheel = ww.write_good(tmp_path, **{"demo/data.bin": data, "demo/empty": b""})
    content = wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        assert archive.getinfo("demo/data.bin").compress_size == len(compress(data).data)
        for info in archive.infolist():
            entry = compress(archive.read(info))
            assert (info.CRC, info.file_size, info.compress_size) == (entry.crc, entry.size, len(entry.data))
            assert entry.data in content


def test_a_file_that_is_too_large_is_refused_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpuwheels.wheel.canonical._MOST", 4096)
    raw = ww.write_raw(tmp_path / "raw.whl", ww.content(**{"demo/data.bin": b"0" * 4097}))
    with pytest.raises(WheelError, match=r"demo/data\.bin has .*; 4 KiB are the limit"):
        canonicalize(raw, tmp_path / "out.whl", epoch=0)
    assert [path.name for path in tmp_path.iterdir()] == ["raw.whl"]


def test_entries_that_are_copied_give_the_same_bytes(tmp_path: Path) -> None:
    words = random.Random(2)
    data = b" ".join(b"word%d" % words.randrange(300) for _ in range(400_000))
    changed = ww.content(**{"demo/data.bin": data, "demo/empty": b"", "demo/\u00e9.py": b"a = 1\n"})
    first = ww.write_raw(tmp_path / "first.whl", changed | {"demo/mine.py": b"mine"})
    canonicalize(first, first, epoch=ww.EPOCH)
    second = ww.write_raw(tmp_path / "second.whl", changed | {"demo/mine.py": b"other"}, external_attr=0o100755 << 16)
    canonicalize(second, tmp_path / "compressed.whl", epoch=7)
    with Streams([first]) as streams:
        canonicalize(second, tmp_path / "copied.whl", epoch=7, streams=streams)
    assert (tmp_path / "copied.whl").read_bytes() == (tmp_path / "compressed.whl").read_bytes()
    with zipfile.ZipFile(tmp_path / "copied.whl") as archive:
        assert archive.testzip() is None
        assert archive.read("demo/data.bin") == data


def test_another_wheels_files_take_the_place_of_the_first_ones(tmp_path: Path) -> None:
    raw = ww.write_raw(tmp_path / "raw.whl", ww.content() | {f"{ww.INFO}/RECORD": b""})
    other = tmp_path / "other.whl"
    info = "demo-0.dist-info"
    ww.write_raw(
        other,
        {
            "demo/_C.abi3.so": b"repaired",
            "demo.libs/x.so": b"x",
            f"{info}/WHEEL": b"Tag: new\n",
            f"{info}/METADATA": b"Name: x\n",
        },
    )
    canonicalize(other, other, epoch=0)
    canonicalize(raw, tmp_path / "out.whl", epoch=0, instead=other)
    with Streams([other]) as streams:
        canonicalize(raw, tmp_path / "copied.whl", epoch=0, instead=other, streams=streams)
    assert (tmp_path / "copied.whl").read_bytes() == (tmp_path / "out.whl").read_bytes()
    with zipfile.ZipFile(tmp_path / "out.whl") as archive:
        assert archive.namelist() == [
            "demo.libs/x.so",
            "demo/_C.abi3.so",
            "demo/__init__.py",
            f"{ww.INFO}/METADATA",
            f"{ww.INFO}/WHEEL",
            f"{ww.INFO}/RECORD",
        ]
        assert archive.read("demo/_C.abi3.so") == b"repaired"
        assert archive.read(f"{ww.INFO}/WHEEL") == b"Tag: new\n"
        assert archive.read(f"{ww.INFO}/METADATA") == ww.METADATA.encode()


def test_what_is_no_wheel_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    bad = tmp_path / "bad.whl"
    bad.write_bytes(b"not a zip")
    with pytest.raises(WheelError, match="not a wheel"):
        canonicalize(bad, tmp_path / "out.whl", epoch=0)
    ww.write_raw(bad, {"demo/__init__.py": b""})
    with pytest.raises(WheelError, match=r"one \.dist-info"):
        canonicalize(bad, tmp_path / "out.whl", epoch=0)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.whl"]


@pytest.mark.parametrize(("mode", "expected"), [(0o700, 0o100755), (0o600, 0o100644)])
def test_an_added_file_is_executable_if_it_was(tmp_path: Path, mode: int, expected: int) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(mode)
    raw, wheel = ww.write_raw(tmp_path / "raw.whl", ww.content()), tmp_path / "wheel.whl"
    canonicalize(raw, wheel, epoch=0, files={"demo/run.sh": script})
    with zipfile.ZipFile(wheel) as archive:
        assert archive.getinfo("demo/run.sh").external_attr >> 16 == expected
        assert archive.read("demo/run.sh") == script.read_bytes()
