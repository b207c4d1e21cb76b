"""What changed from one set of locks to another."""

from __future__ import annotations

from pathlib import Path

from cpuwheels.config.debian_lock import DebianLock, DebianPackage
from cpuwheels.fetch.debian.resolve import lock_text
from cpuwheels.fetch.locks.changes import debian_changes, python_changes


def package(name: str, version: str, digit: str = "0", size: int = 10) -> DebianPackage:
    return DebianPackage(name=name, version=version, path=f"pool/{name}_{version}.deb", size=size, sha256=digit * 64)


def lock(*packages: DebianPackage) -> DebianLock:
    return DebianLock(suites={"sid": ("a",)}, architecture="amd64", packages=packages)


def folder(path: Path, **texts: str) -> Path:
    (path / "locks").mkdir(parents=True)
    for name, text in texts.items():
        (path / "locks" / name.replace("_", ".")).write_text(text)
    return path


def test_a_python_package_is_one_row_with_all_its_locks(tmp_path: Path) -> None:
    before = folder(tmp_path / "a", run_txt="a==1\nb==1\n", dev_txt="a==1\nc==1\n")
    after = folder(tmp_path / "b", run_txt="a==2\nb==1\n", dev_txt="a==2\nd==1\nd==2\n")
    found = {(one.name, one.old, one.new): one.locks for one in python_changes(before, after)}
    assert found == {
        ("a", "1", "2"): ["run.txt", "dev.txt"],
        ("c", "1", ""): ["dev.txt"],
        ("d", "", "1 2"): ["dev.txt"],
    }


def test_a_debian_package_with_other_bytes_is_a_change_too(tmp_path: Path) -> None:
    old = lock(package("a", "1"), package("b", "1"), package("gone", "1"), package("same", "1"))
    new = lock(package("a", "2", "1", 20), package("b", "1", "2"), package("new", "1"), package("same", "1"))
    before, after = folder(tmp_path / "x", a_yaml=lock_text(old)), folder(tmp_path / "y", a_yaml=lock_text(new))
    found = {one.name: one for one in debian_changes(before, after)}
    assert found.keys() == {"a", "b", "gone", "new"}
    assert (found["a"].old, found["a"].new, found["a"].old_size, found["a"].size) == ("1", "2", 10, 20)
    assert (found["b"].old, found["b"].new, found["b"].sha256) == ("1", "1", "2" * 64)
    assert (found["gone"].new, found["new"].old) == ("", "")
    assert {one.source for one in found.values()} == {"Debian sid amd64"}
    assert found["a"].locks == ["a.yaml"]
