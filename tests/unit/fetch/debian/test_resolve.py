from __future__ import annotations

import hashlib
import lzma
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.errors import DigestMismatchError, DownloadError, SignatureError, ToolchainError
from cpuwheels.fetch.debian.dependencies import closure, read_index
from cpuwheels.fetch.debian.release import Listed
from cpuwheels.fetch.debian.resolve import relock, unpack_index
from deb_writer import write_gpgv, write_suite

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


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "pool/../../x.deb", "/etc/passwd", "pool/%2e%2e/x.deb", "pool/.x.deb", "pool//x.deb", ""],
)
def test_a_file_outside_of_the_mirror_is_refused(path: str) -> None:
    with pytest.raises(ToolchainError, match="an entry that cannot be used") as caught:
        read_index("trixie", stanza("a").replace("pool/a.deb", path))
    assert caught.value.where == "a"


def test_an_entry_without_a_digest_is_refused() -> None:
    with pytest.raises(ToolchainError, match="an entry that cannot be used: 'SHA256'"):
        read_index("trixie", stanza("a").replace("SHA256", "MD5"))


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


NOW = datetime(2026, 11, 25, tzinfo=UTC)


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A keyring, with a gpgv that takes every signature for a good one."""
    tools, keys = write_gpgv(tmp_path / "tools")
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return keys


def test_relock_rewrites_packages_and_keeps_the_rest(mirror: Path, lock: Path, tmp_path: Path, keyring: Path) -> None:
    result = relock(lock, [(tmp_path / "none").as_uri(), mirror.as_uri()], keyring=keyring, now=NOW)
    assert [(package.name, package.version) for package in result.packages] == [
        ("libc6", "2.31"),
        ("python-dev", "1.0-1"),
    ]
    assert load_lock(tmp_path, "root") == result
    assert result.leave_out_files == ("usr/bin/*",)
    assert "written by `nox -s lock`" in lock.read_text().splitlines()[0]
    before = lock.read_text()
    relock(lock, [mirror.as_uri()], keyring=keyring, now=NOW)
    assert lock.read_text() == before


def test_a_refused_list_changes_nothing(mirror: Path, lock: Path, tmp_path: Path, keyring: Path) -> None:
    write_gpgv(tmp_path / "tools", "[GNUPG:] NEWSIG\n[GNUPG:] BADSIG 1 Me\n")
    with pytest.raises(SignatureError, match="InRelease is not signed by Debian: the signature does not belong"):
        relock(lock, [mirror.as_uri()], keyring=keyring, now=NOW)
    assert lock.read_text() == LOCK


def test_a_mirror_that_is_out_of_date_is_named_and_the_next_one_is_asked(
    mirror: Path, lock: Path, tmp_path: Path, keyring: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stale = tmp_path / "stale"
    for suite in ("old", "new"):
        write_suite(stale, suite, stanza("libc6", version="1"), Valid_Until="Sun, 22 Nov 2026 00:00:00 UTC")
    found = relock(lock, [stale.as_uri(), mirror.as_uri()], keyring=keyring, now=NOW)
    assert [package.version for package in found.packages] == ["2.31", "1.0-1"]
    assert f"{stale.as_uri()}/dists/old/InRelease" in caplog.text
    with pytest.raises(SignatureError, match="was valid until 2026-11-22 00:00 UTC: the mirror is out of date"):
        relock(lock, [stale.as_uri()], keyring=keyring, now=NOW)


def test_a_machine_that_cannot_check_signatures_is_told_so_before_anything_is_fetched(
    lock: Path, tmp_path: Path
) -> None:
    with pytest.raises(SignatureError, match="no signature of Debian's can be checked") as caught:
        relock(lock, ["https://not-asked.invalid"], keyring=tmp_path / "no-key", now=NOW)
    assert "apt-get install gpgv debian-archive-keyring" in caught.value.next_step


def test_no_more_of_an_index_is_unpacked_than_its_suite_states(tmp_path: Path) -> None:
    packed = tmp_path / "Packages.xz"
    packed.write_bytes(lzma.compress(bytes(1 << 20)))
    right = Listed(hashlib.sha256(bytes(1 << 20)).hexdigest(), 1 << 20)
    assert len(unpack_index(packed, right, "the index", "a mirror")) == 1 << 20
    for wrong in (Listed(right.sha256, 1000), Listed("0" * 64, 1 << 20)):
        with pytest.raises(DigestMismatchError, match="does not unpack to the"):
            unpack_index(packed, wrong, "the index", "a mirror")
    packed.write_bytes(b"no xz" * 99)
    with pytest.raises(DigestMismatchError, match="cannot be unpacked"):
        unpack_index(packed, right, "the index", "a mirror")


def test_an_index_other_than_announced_is_refused(mirror: Path, lock: Path, keyring: Path) -> None:
    index = mirror / "dists/old/main/binary-amd64/Packages.xz"
    index.write_bytes(index.read_bytes() + b"more")
    with pytest.raises(DigestMismatchError, match="the index of Debian suite old"):
        relock(lock, [mirror.as_uri()], keyring=keyring, now=NOW)


def test_an_unknown_architecture_is_named(mirror: Path, lock: Path, keyring: Path) -> None:
    lock.write_text(LOCK.replace("amd64", "amd46"))
    with pytest.raises(DownloadError, match="has no architecture amd46"):
        relock(lock, [mirror.as_uri()], keyring=keyring, now=NOW)
