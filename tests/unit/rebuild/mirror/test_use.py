"""A mirror as a build uses it: its own places and no others, and nothing that is damaged."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from cpuwheels.core.errors import MirrorError
from cpuwheels.core.store import Store
from cpuwheels.fetch.download import is_stored
from cpuwheels.rebuild.mirror.manifest import MANIFEST, Manifest, MirroredClone, MirroredFile
from cpuwheels.rebuild.mirror.use import open_mirror, settings_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    base = tmp_path / "mirror"
    files = []
    for name, project in (("a.deb", None), ("b-1-py3-none-any.whl", "b")):
        content = name.encode()
        digest = hashlib.sha256(content).hexdigest()
        one = MirroredFile(name=name, sha256=digest, size=len(content), stage="toolchain", project=project)
        (base / one.place).parent.mkdir(parents=True)
        (base / one.place).write_bytes(content)
        files.append(one)
    (base / "git/onednn.git").mkdir(parents=True)
    (base / "git/onednn.git/HEAD").touch()
    clone = MirroredClone(kind="onednn", name="onednn.git", commits=("1" * 40,))
    (base / MANIFEST).write_text(Manifest(files=tuple(files), clones=(clone,)).model_dump_json())
    return base


def test_a_build_asks_the_mirror_and_no_other_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://elsewhere.example/simple")
    monkeypatch.setenv("UV_FIND_LINKS", "/elsewhere")
    before = dict(os.environ)
    with settings_of(open_mirror(folder), {"MORE": "1"}):
        assert os.environ["UV_DEFAULT_INDEX"] == (folder / "simple").as_uri()
        assert os.environ["CPUWHEELS_ONEDNN_REPO"] == str(folder / "git/onednn.git")
        assert os.environ["MORE"] == "1"
        assert not {"PIP_INDEX_URL", "UV_FIND_LINKS", "CPUWHEELS_VLLM_REPO"} & os.environ.keys()
    assert dict(os.environ) == before
    with settings_of(None):
        assert dict(os.environ) == before


def test_the_stores_get_what_is_no_python_package(folder: Path, store: Store) -> None:
    mirror = open_mirror(folder)
    mirror.fill(store)
    deb, wheel = mirror.manifest.files
    assert is_stored(deb.sha256, store)
    assert not is_stored(wheel.sha256, store)


def test_a_damaged_mirror_is_not_opened(folder: Path) -> None:
    next(folder.rglob("a.deb")).write_bytes(b"other")
    with pytest.raises(MirrorError, match=r"the mirror is damaged: files/.*/a\.deb: it has sha256"):
        open_mirror(folder)
