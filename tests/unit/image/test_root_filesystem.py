from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.debian_lock import DebianLock, DebianPackage
from cpuwheels.core.errors import MatrixError
from cpuwheels.fetch.debian.resolve import lock_text
from cpuwheels.image.layers import Member
from cpuwheels.image.root_filesystem import CERTIFICATES, HOME, USER, base_members, base_root, compiler_members
from deb_writer import Deb


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


def package(mirror: Path, name: str, deb: Deb, version: str = "1.0") -> DebianPackage:
    path = deb.write(mirror / f"{name}_{version}.deb")
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return DebianPackage(name=name, version=version, path=path.name, size=len(data), sha256=digest)


def lock(*packages: DebianPackage, **changes: object) -> DebianLock:
    made = DebianLock(suites={"s": ("p",)}, architecture="amd64", packages=packages)
    return made.model_copy(update=changes)


def test_a_base_has_its_packages_certificates_a_user_and_licences(mirror: Path, tmp_path: Path) -> None:
    files = {
        "usr/bin/tool": "tool",
        "usr/share/doc/p/copyright": "MIT",
        "usr/share/doc/p/changelog": "old",
        "usr/share/ca-certificates/mozilla/B.crt": "second\n",
        "usr/share/ca-certificates/mozilla/A.crt": "first",
    }
    pinned = lock(package(mirror, "p", Deb(files)), keep_files=("usr/share/doc/*/copyright",))
    root, key = base_root(build_context(tmp_path, mirrors=(mirror.as_uri(),)), pinned)
    members = base_members(root)
    assert key == root_key(tmp_path, mirror, pinned)
    assert {"usr/bin/tool", "usr/share/doc/p/copyright", "proc", "tmp", HOME} <= members.keys()
    assert "usr/share/doc/p/changelog" not in members
    assert members["usr/bin/tool"].mode == 0o755, "nothing is set-uid"
    assert members[CERTIFICATES] == Member(b"first\nsecond\n")
    assert members["tmp"].mode == 0o1777
    assert members[HOME].owner == USER
    passwd = members["etc/passwd"].content
    assert isinstance(passwd, bytes)
    assert f"vllm:x:{USER}:{USER}:" in passwd.decode()


def root_key(folder: Path, mirror: Path, pinned: DebianLock) -> str:
    other = build_context(folder / "again", mirrors=(mirror.as_uri(),))
    return base_root(other, pinned)[1]


def test_a_compiler_adds_only_what_the_base_lacks(mirror: Path, tmp_path: Path) -> None:
    shared, own = package(mirror, "libc6", Deb({"lib/libc.so": "c"})), package(mirror, "g++", Deb({"usr/bin/g++": "g"}))
    context = build_context(tmp_path, root=tmp_path, mirrors=(mirror.as_uri(),))
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "base.yaml").write_text(lock_text(lock(shared)))
    (tmp_path / "locks" / "compiler.yaml").write_text(lock_text(lock(shared, own)))
    members, _ = compiler_members(context, "base", "compiler")
    assert list(members) == ["usr/bin/g++"], "neither the base's files nor links in place of its folders"
    newer = package(mirror, "libc6", Deb({"lib/libc.so": "d"}), "2.0")
    (tmp_path / "locks" / "compiler.yaml").write_text(lock_text(lock(newer, own)))
    with pytest.raises(MatrixError, match=r"libc6: another version than in locks/base\.yaml"):
        compiler_members(context, "base", "compiler")
