"""The manifest of a mirror: what it lists is there, with the bytes that it says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from cpuwheels.core.errors import MirrorError
from cpuwheels.rebuild.mirror.manifest import (
    MANIFEST,
    Manifest,
    MirroredClone,
    MirroredFile,
    MirroredWheel,
    check_files,
    read_manifest,
)


def kept(folder: Path, name: str, content: bytes) -> MirroredFile:
    one = MirroredFile(name=name, sha256=hashlib.sha256(content).hexdigest(), size=len(content), stage="toolchain")
    (folder / one.place).parent.mkdir(parents=True)
    (folder / one.place).write_bytes(content)
    return one


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    made = Manifest(files=(kept(tmp_path, "a.deb", b"1"),))
    (tmp_path / MANIFEST).write_text(made.model_dump_json())
    assert read_manifest(tmp_path) == made
    check_files(tmp_path, made)


def test_each_damage_is_found(tmp_path: Path) -> None:
    files = [kept(tmp_path, name, name.encode()) for name in ("a.deb", "b.deb", "c.deb")]
    made = Manifest(files=tuple(files), clones=(MirroredClone(kind="onednn", name="onednn.git", commits=("1" * 40,)),))
    (tmp_path / files[0].place).write_bytes(b"other")
    (tmp_path / files[1].place).unlink()
    (tmp_path / files[2].place).unlink()
    (tmp_path / files[2].place).symlink_to("/etc/passwd")
    with pytest.raises(MirrorError, match="the mirror is damaged") as caught:
        check_files(tmp_path, made)
    lines = caught.value.output.splitlines()
    assert len(lines) == 4
    assert "it has sha256" in lines[0]
    assert "symbolic link" in lines[2]
    assert lines[3] == "git/onednn.git: it is missing"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../etc/passwd"},
        {"name": "a/b"},
        {"name": ".hidden"},
        {"sha256": "1"},
        {"size": -1},
        {"stage": "x y"},
        {"project": "../a"},
        {"more": 1},
    ],
)
def test_a_manifest_that_leads_elsewhere_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    row = {"name": "a", "sha256": "1" * 64, "size": 1, "stage": "torch"} | change
    (tmp_path / MANIFEST).write_text(json.dumps({"files": [row]}))
    with pytest.raises(MirrorError, match="none of a mirror"):
        read_manifest(tmp_path)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MirrorError, match="there is no mirror"):
        read_manifest(tmp_path)
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(MirrorError, match="none of a mirror"):
        read_manifest(tmp_path)


def test_several_wheels_share_a_mirror() -> None:
    file = MirroredFile(name="a", sha256="1" * 64, size=1, stage="torch")
    first = MirroredClone(kind="onednn", name="onednn.git", commits=("1" * 40,))
    wheel = MirroredWheel(name="w", sha256="2" * 64, target="x86", source="1", program="3" * 40, files=())
    one = Manifest(files=(file,), clones=(first,), wheels=(wheel,))
    other = Manifest(
        files=(file,),
        clones=(first.model_copy(update={"commits": ("2" * 40,)}),),
        wheels=(wheel.model_copy(update={"sha256": "4" * 64}),),
    )
    both = one.merged(other)
    assert both.files == (file,)
    assert both.clones[0].commits == ("1" * 40, "2" * 40)
    assert len(both.wheels) == 2
    assert both.merged(one) == both
