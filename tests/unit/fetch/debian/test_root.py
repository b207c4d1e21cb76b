from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from cpuwheels.config.debian_lock import DebianLock, DebianPackage
from cpuwheels.config.downloads import debian_packages
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import DownloadError, LockedError, MatrixError, UnsafeArchiveError
from cpuwheels.core.store import Store
from cpuwheels.fetch.debian.root import content_key, merge_links, unpacked_root
from cpuwheels.fetch.requests import FILE, Requests, listed, watched
from deb_writer import Deb

if TYPE_CHECKING:
    from pathlib import Path


def make_lock(mirror: Path, **debs: Deb) -> DebianLock:
    packages = []
    for name, deb in debs.items():
        path = deb.write(mirror / f"pool/{name}.deb")
        data = path.read_bytes()
        packages.append(
            DebianPackage(
                name=name, version="1", path=f"pool/{name}.deb", size=len(data), sha256=hashlib.sha256(data).hexdigest()
            )
        )
    return DebianLock(suites={"test": tuple(debs)}, architecture="amd64", packages=tuple(packages))


@pytest.fixture
def reporter() -> Reporter:
    return Reporter("t", Console(file=io.StringIO()))


def test_packages_lie_over_one_another_and_need_no_mirror_afterwards(tmp_path: Path, reporter: Reporter) -> None:
    mirror, store = tmp_path / "mirror", Store(tmp_path / "store")
    lock = make_lock(mirror, a=Deb(files={"usr/lib/a": "a", "usr/bin/x": ""}), b=Deb(files={"usr/lib/b": "b"}))
    root = unpacked_root(lock, "roots", mirrors=[mirror.as_uri()], store=store, reporter=reporter)
    assert (root / "lib").readlink().as_posix() == "usr/lib"
    assert (root / "lib/a").read_text() + (root / "usr/lib/b").read_text() == "ab"
    assert unpacked_root(lock, "roots", mirrors=["file:///nowhere"], store=store, reporter=reporter) == root


def test_the_first_mirror_that_has_a_package_serves_it(tmp_path: Path, reporter: Reporter) -> None:
    lock = make_lock(tmp_path / "mirror", a=Deb(files={"usr/lib/a": "a"}))
    mirrors = [(tmp_path / "empty").as_uri(), (tmp_path / "mirror").as_uri()]
    root = unpacked_root(lock, "roots", mirrors=mirrors, store=Store(tmp_path / "store"), reporter=reporter)
    assert (root / "usr/lib/a").is_file()


def test_finish_sees_the_files_and_their_later_place(tmp_path: Path, reporter: Reporter) -> None:
    lock = make_lock(tmp_path / "mirror", a=Deb(files={"usr/lib/a": "a"}))
    seen: list[Path] = []

    def finish(fresh: Path, place: Path) -> None:
        assert (fresh / "usr/lib/a").is_file()
        seen.append(place)

    root = unpacked_root(
        lock,
        "roots",
        mirrors=[(tmp_path / "mirror").as_uri()],
        store=Store(tmp_path / "store"),
        reporter=reporter,
        finish=finish,
    )
    assert seen == [root]


def test_a_locked_run_fetches_no_package_that_is_not_listed_on_any_of_its_threads(
    tmp_path: Path, reporter: Reporter
) -> None:
    lock = make_lock(tmp_path / "mirror", a=Deb(files={"usr/a": ""}), b=Deb(files={"usr/b": ""}))
    store, mirrors = Store(tmp_path / "store"), [(tmp_path / "mirror").as_uri()]
    rows = list(debian_packages(lock, "sysroot"))
    with watched(Requests(tmp_path / FILE, listed("the list", rows[:1]))), pytest.raises(LockedError, match="b 1"):
        unpacked_root(lock, "roots", mirrors=mirrors, store=store, reporter=reporter)
    with watched(Requests(tmp_path / FILE, listed("the list", rows))):
        assert (unpacked_root(lock, "roots", mirrors=mirrors, store=store, reporter=reporter) / "usr/b").is_file()


def test_a_version_that_is_gone_says_what_to_do(tmp_path: Path, reporter: Reporter) -> None:
    lock = make_lock(tmp_path / "mirror", a=Deb(), b=Deb(files={"usr/b": ""}))
    (tmp_path / "mirror/pool/b.deb").unlink()
    store = Store(tmp_path / "store")
    with pytest.raises(DownloadError, match="cannot fetch b 1") as caught:
        unpacked_root(lock, "roots", mirrors=[(tmp_path / "mirror").as_uri()], store=store, reporter=reporter)
    assert "nox -s lock" in caught.value.next_step
    assert "snapshot.debian.org" in caught.value.next_step
    assert not any((tmp_path / "store/roots").iterdir())


def test_an_empty_lock_is_refused(tmp_path: Path, reporter: Reporter) -> None:
    lock = DebianLock(suites={"test": ("a",)}, architecture="amd64")
    with pytest.raises(MatrixError, match="no packages"):
        unpacked_root(lock, "roots", mirrors=[], store=Store(tmp_path), reporter=reporter)


def test_real_folders_get_no_merge_link(tmp_path: Path) -> None:
    for name in ("usr/lib", "lib", "usr/bin"):
        (tmp_path / name).mkdir(parents=True)
    merge_links(tmp_path)
    assert not (tmp_path / "lib").is_symlink()
    assert (tmp_path / "bin").is_symlink()
    assert not (tmp_path / "lib64").is_symlink()


def test_content_key_depends_on_contents_only(tmp_path: Path) -> None:
    lock = make_lock(tmp_path, a=Deb(files={"usr/a": "a"}))
    moved = lock.packages[0].model_copy(update={"path": "elsewhere/a.deb", "version": "2"})
    other = lock.packages[0].model_copy(update={"sha256": "0" * 64})
    assert content_key(lock.model_copy(update={"packages": (moved,)})) == content_key(lock)
    assert content_key(lock.model_copy(update={"packages": (other,)})) != content_key(lock)
    assert content_key(lock.model_copy(update={"leave_out_files": ("usr/*",)})) != content_key(lock)


def test_links_that_the_packages_lack(tmp_path: Path, reporter: Reporter) -> None:
    lock = make_lock(tmp_path / "mirror", a=Deb(files={"usr/lib/m/libx.so.1": "x"}))
    linked = lock.model_copy(update={"links": {"usr/lib/m/libx.so": "libx.so.1", "usr/lib/new/y": "../m/libx.so"}})
    assert content_key(linked) != content_key(lock)
    mirrors = [(tmp_path / "mirror").as_uri()]
    root = unpacked_root(linked, "roots", mirrors=mirrors, store=Store(tmp_path / "store"), reporter=reporter)
    assert (root / "usr/lib/m/libx.so").readlink().as_posix() == "libx.so.1"
    assert (root / "lib/new/y").read_text() == "x"


@pytest.mark.parametrize("link", [("../x", "a"), ("/tmp/x", "a"), ("usr/lib/x", "../../../a"), ("usr/lib/x", "/etc")])
def test_a_link_stays_in_the_root(tmp_path: Path, reporter: Reporter, link: tuple[str, str]) -> None:
    lock = make_lock(tmp_path / "mirror", a=Deb(files={"usr/lib/a": "a"})).model_copy(update={"links": dict([link])})
    mirrors = [(tmp_path / "mirror").as_uri()]
    with pytest.raises(UnsafeArchiveError, match="leads out of the root"):
        unpacked_root(lock, "roots", mirrors=mirrors, store=Store(tmp_path / "store"), reporter=reporter)
