from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.errors import DigestMismatchError, DownloadError, ToolchainError
from cpuwheels.fetch.debian.dependencies import closure, read_index
from cpuwheels.fetch.debian.resolve import relock
from deb_writer import write_suite

if TYPE_CHECKING:
    from pathlib import Path


def stanza(name: str, depends: str = "", **fields: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()
    lines = [
        f"Package: {name}",
        f"Version: {fields.pop('version', '1.0-1')}",
        f"Filename: pool/{name}.deb",
        "Size: 10",
        f"SHA256: {digest}",
        *([f"Depends: {depends}"] if depends else []),
        *(f"{key.replace('_', '-')}: {value}" for key, value in fields.items()),
    ]
    return "\n".join(lines) + "\n"


PACKAGES = "\n".join(
    [
        stanza("g++-14", "gcc-14 (= 14.2.0-19), libstdc++-14-dev:amd64 (>= 1) | other, virtual"),
        stanza("gcc-14", "libc6 (>= 2.38), libasan8", Pre_Depends="loader"),
        stanza("libstdc++-14-dev", "libc6 [amd64]"),
        stanza("libc6", "g++-14"),
        stanza("libasan8", "only-asan"),
        stanza("only-asan"),
        stanza("loader"),
        stanza("real-b", Provides="virtual (= 1)"),
        stanza("real-a", Provides="something, virtual"),
    ]
)


@pytest.mark.parametrize(
    ("roots", "leave_out", "dependencies", "expected"),
    [
        (["libstdc++-14-dev"], ["g++-14"], True, "libc6 libstdc++-14-dev"),
        (["g++-14"], ["libasan8", "virtual"], True, "g++-14 gcc-14 libc6 libstdc++-14-dev loader"),
        (["g++-14"], ["gcc-14", "libstdc++-14-dev"], True, "g++-14 real-a"),
        (["g++-14", "libc6"], [], False, "g++-14 libc6"),
    ],
)
def test_closure(roots: list[str], leave_out: list[str], dependencies: bool, expected: str) -> None:
    found = closure(read_index("trixie", PACKAGES), roots, leave_out=leave_out, dependencies=dependencies)
    assert [package.name for package in found] == expected.split()


def test_a_missing_package_is_named_with_what_needs_it() -> None:
    index = read_index("trixie", stanza("a", "b") + "\n" + stanza("b", "gone"))
    with pytest.raises(ToolchainError, match="trixie has no package gone") as caught:
        closure(index, ["a"])
    assert caught.value.where == "needed by b"


LOCK = """\
suites:
  old:
  - libc6
  new:
  - libc6
  - python-dev
architecture: amd64
dependencies: false
leave_out_files:
- usr/bin/*
packages: []
"""


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    write_suite(tmp_path / "mirror", "old", stanza("libc6", version="2.31"))
    write_suite(tmp_path / "mirror", "new", stanza("libc6", version="2.41") + "\n" + stanza("python-dev", "libc6"))
    return tmp_path / "mirror"


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "locks" / "root.yaml"
    path.parent.mkdir()
    path.write_text(LOCK)
    return path


def test_relock_rewrites_packages_and_keeps_the_rest(mirror: Path, lock: Path, tmp_path: Path) -> None:
    result = relock(lock, [(tmp_path / "none").as_uri(), mirror.as_uri()], keyring=tmp_path / "no-key")
    assert [(package.name, package.version) for package in result.packages] == [
        ("libc6", "2.31"),
        ("python-dev", "1.0-1"),
    ]
    assert load_lock(tmp_path, "root") == result
    assert result.leave_out_files == ("usr/bin/*",)
    assert "written by `nox -s lock`" in lock.read_text().splitlines()[0]
    before = lock.read_text()
    relock(lock, [mirror.as_uri()], keyring=tmp_path / "no-key")
    assert lock.read_text() == before


def test_an_unsigned_suite_is_refused_where_the_key_is_known(
    mirror: Path, lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "gpgv").write_text("#!/bin/sh\necho 'gpgv: no valid signature' >&2\nexit 2\n")
    (tools / "gpgv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    keyring = tmp_path / "key.gpg"
    keyring.touch()
    with pytest.raises(DigestMismatchError, match="not signed by Debian: gpgv: no valid signature"):
        relock(lock, [mirror.as_uri()], keyring=keyring)
    assert lock.read_text() == LOCK


def test_an_index_other_than_announced_is_refused(mirror: Path, lock: Path, tmp_path: Path) -> None:
    index = mirror / "dists/old/main/binary-amd64/Packages.xz"
    index.write_bytes(index.read_bytes() + b"more")
    with pytest.raises(DigestMismatchError, match="the index of Debian suite old"):
        relock(lock, [mirror.as_uri()], keyring=tmp_path / "no-key")


def test_an_unknown_architecture_is_named(mirror: Path, lock: Path, tmp_path: Path) -> None:
    lock.write_text(LOCK.replace("amd64", "amd46"))
    with pytest.raises(DownloadError, match="has no architecture amd46"):
        relock(lock, [mirror.as_uri()], keyring=tmp_path / "no-key")
