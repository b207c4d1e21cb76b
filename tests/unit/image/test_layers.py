from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from cpuwheels.core.store import Store
from cpuwheels.image.layers import EARLIEST, Member, folder, folder_members, stored_layer, write_layer

EPOCH = 1_700_000_000


def read(path: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return tar.getmembers()


def tree(base: Path, *, reverse: bool) -> Path:
    names = ["b/deep/file.py", "b.txt", "a/run", f"{'long/' * 60}name"]
    for name in reversed(names) if reverse else names:
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(0o755 if name.endswith("run") else 0o644)
    (base / "b" / "link").symlink_to("/etc/passwd")
    return base


def test_the_same_files_make_the_same_bytes_wherever_and_whenever_they_were_written(tmp_path: Path) -> None:
    one, other = tree(tmp_path / "one", reverse=False), tree(tmp_path / "elsewhere" / "other", reverse=True)
    os.utime(other / "b.txt", (1, 1))
    (other / "b.txt").chmod(0o600)
    (other / "a" / "run").chmod(0o700)
    layers = [write_layer(folder_members(each, "usr"), EPOCH, tmp_path / f"{each.name}.gz") for each in (one, other)]
    assert layers[0].digest == layers[1].digest
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "other.gz").read_bytes()


def test_a_member_has_a_number_for_an_owner_one_time_and_a_plain_mode(tmp_path: Path) -> None:
    members = {
        **folder_members(tree(tmp_path / "tree", reverse=False), "usr"),
        "home/me": folder(0o700, 1000),
        "tmp": folder(0o1777),
        "etc/passwd": Member(b"root"),
    }
    layer = write_layer(members, EPOCH, tmp_path / "layer")
    found = {one.name: one for one in read(layer.path)}
    assert list(found) == sorted(found, key=lambda name: name.split("/"))
    assert {one.mtime for one in found.values()} == {EPOCH}
    assert {(one.uname, one.gname) for one in found.values()} == {("", "")}
    assert {(one.uid, one.gid) for name, one in found.items() if name != "home/me"} == {(0, 0)}
    assert (found["home/me"].uid, found["home/me"].gid, found["home/me"].mode) == (1000, 1000, 0o700)
    assert found["tmp"].mode == 0o1777
    assert (found["usr/a/run"].mode, found["usr/b.txt"].mode, found["usr/b"].mode) == (0o755, 0o644, 0o755)
    assert (found["usr/b/link"].type, found["usr/b/link"].linkname) == (tarfile.SYMTYPE, "/etc/passwd")
    assert f"usr/{'long/' * 60}name" in found


def test_digests_are_of_both_sides(tmp_path: Path) -> None:
    layer = write_layer({"a": Member(b"text")}, EPOCH, tmp_path / "layer")
    packed = layer.path.read_bytes()
    archive = gzip.decompress(packed)
    assert (layer.digest, layer.size) == (hashlib.sha256(packed).hexdigest(), len(packed))
    assert (layer.diff_id, layer.unpacked) == (hashlib.sha256(archive).hexdigest(), len(archive))
    assert packed[4:8] == bytes(4), "gzip's time"
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        stream = tar.extractfile("a")
        assert stream is not None
        assert stream.read() == b"text"


def test_a_parent_folder_keeps_what_is_said_of_it(tmp_path: Path) -> None:
    layer = write_layer({"tmp/x/y": Member(b""), "tmp": folder(0o1777)}, EPOCH, tmp_path / "layer")
    assert [(one.name, one.mode) for one in read(layer.path)] == [("tmp", 0o1777), ("tmp/x", 0o755), ("tmp/x/y", 0o644)]


def test_a_layer_is_packed_once_for_the_same_inputs(tmp_path: Path) -> None:
    store, made = Store(tmp_path), []

    def make() -> dict[str, Member]:
        made.append(1)
        return {"a": Member(str(len(made)).encode())}

    first = stored_layer(store, "things", EARLIEST, make, wheel="1")
    again = stored_layer(store, "things", EARLIEST, make, wheel="1")
    assert (first, len(made)) == (again, 1)
    assert stored_layer(store, "things", EARLIEST, make, wheel="2").digest != first.digest
    assert stored_layer(store, "things", EARLIEST + 1, make, wheel="1").digest != first.digest
    first.path.write_bytes(b"damaged")
    assert stored_layer(store, "things", EARLIEST, make, wheel="1").path.read_bytes() != b"damaged"
    assert len(made) == 4


def test_a_layer_that_cannot_be_made_is_not_seen(tmp_path: Path) -> None:
    def broken() -> dict[str, Member]:
        return {"a": Member(tmp_path / "missing")}

    with pytest.raises(Exception, match="missing"):
        stored_layer(Store(tmp_path / "store"), "things", EARLIEST, broken)
    assert list((tmp_path / "store" / "image-layers").iterdir()) == []
