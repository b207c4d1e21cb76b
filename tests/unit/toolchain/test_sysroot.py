"""The root of headers and libraries: which folders it has, and for which age it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.debian_lock import DebianLock, DebianPackage
from cpuwheels.config.platform_policy import Policy
from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain import glibc_floor
from cpuwheels.toolchain.sysroot import Sysroot, sysroot_key, unpacked_sysroot
from deb_writer import Deb

MACHINE = "x86_64-linux-gnu"
OLD = Policy("old", 1, {"GLIBC": frozenset({"2.17"})}, frozenset())
NEW = Policy("new", 2, {"GLIBC": frozenset({"2.17", "2.28"})}, frozenset())


@pytest.mark.parametrize(
    ("folders", "links", "expected"),
    [
        (["usr/lib", "lib"], {}, ["usr/lib", "lib"]),
        (["usr/lib"], {"lib": "usr/lib"}, ["usr/lib"]),
        (["lib"], {}, ["lib"]),
    ],
)
def test_the_folders_of_libraries_are_each_there_once(
    tmp_path: Path, folders: list[str], links: dict[str, str], expected: list[str]
) -> None:
    for name in folders:
        (tmp_path / name / MACHINE).mkdir(parents=True)
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    found = Sysroot(tmp_path, MACHINE).library_folders
    assert found == tuple(tmp_path / name / MACHINE for name in expected)


def test_the_headers_of_the_machine_come_second(tmp_path: Path) -> None:
    include = tmp_path / "usr/include"
    for name in (f"{MACHINE}/python3.11", "python3.11", "other-machine/python3.11", "numa"):
        (include / name).mkdir(parents=True)
    found = Sysroot(tmp_path, MACHINE)
    assert found.python_include == (include / "python3.11", include / MACHINE / "python3.11")
    assert found.cxx_library == tmp_path / "usr/lib" / MACHINE / "libstdc++.so.6"


Unpack = Callable[..., Sysroot]


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """The policies to which roots were lowered, each with whether the root was there by then."""
    done: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        glibc_floor, "apply_floor", lambda root, policy: done.append((policy.name, (root / "usr").is_dir()))
    )
    return done


@pytest.fixture
def unpack(tmp_path: Path, lowered: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch) -> Unpack:
    assert lowered == []
    monkeypatch.setattr("cpuwheels.fetch.debian.mirrors.APT_ROOT", tmp_path / "apt")
    monkeypatch.delenv("CPUWHEELS_DEBIAN_MIRROR", raising=False)

    def unpack(*files: str, policy: Policy = OLD) -> Sysroot:
        data = Deb(files=dict.fromkeys(files, "text")).write(tmp_path / "mirror/libc6-dev.deb").read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        package = DebianPackage(name="libc6-dev", version="1", path="libc6-dev.deb", size=len(data), sha256=digest)
        lock = DebianLock(suites={"test": ("libc6-dev",)}, architecture="amd64", packages=(package,))
        mirrors = ((tmp_path / "mirror").as_uri(),)
        found = unpacked_sysroot(build_context(tmp_path / "store", mirrors=mirrors), lock, policy)
        assert sysroot_key(lock, OLD) != sysroot_key(lock, NEW)
        return found

    return unpack


def test_a_root_is_unpacked_and_lowered_once_for_each_policy(unpack: Unpack, lowered: list[tuple[str, bool]]) -> None:
    files = (f"usr/lib/{MACHINE}/libc.so", "usr/include/features.h")
    found = unpack(*files)
    assert found.multiarch == MACHINE
    assert (found.root / "usr/include/features.h").is_file()
    assert unpack(*files) == found
    assert lowered == [("old", True)]
    assert unpack(*files, policy=NEW).root != found.root
    assert lowered == [("old", True), ("new", True)]


def test_a_root_without_a_c_library_is_refused(unpack: Unpack) -> None:
    with pytest.raises(ToolchainError, match="no C library to link against"):
        unpack("usr/include/features.h", f"usr/lib/{MACHINE}/libc.so.6")
