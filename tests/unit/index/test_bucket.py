"""Where an index is kept: a folder, and a bucket of a server that speaks S3."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.errors import PublishError, StoreError, UsageError
from cpuwheels.index import s3 as s3_buckets
from cpuwheels.index.address import open_bucket
from cpuwheels.index.bucket import Bucket, Folder
from cpuwheels.index.s3 import S3Bucket


@pytest.fixture
def s3(s3_client: Any, request: pytest.FixtureRequest) -> Callable[[], Bucket]:
    name = f"wheels-{abs(hash(request.node.name))}"
    s3_client.create_bucket(Bucket=name)
    return lambda: S3Bucket(f"s3://{name}/some/prefix")


@pytest.fixture(params=["folder", "s3"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Bucket]:
    """Opens the same bucket, each time as another publisher does."""
    if request.param == "folder":
        return lambda: Folder(tmp_path / "index")
    made: Callable[[], Bucket] = request.getfixturevalue("s3")
    return made


def test_files_are_written_read_listed_and_removed(opened: Callable[[], Bucket]) -> None:
    bucket = opened()
    assert bucket.read("a/b.html") is None
    bucket.write("a/b.html", b"one")
    bucket.write("a/b.html", b"two")
    bucket.write("c/d+e.whl", b"wheel")
    assert opened().read("a/b.html") == b"two"
    assert bucket.names() == ["a/b.html", "c/d+e.whl"]
    assert bucket.names("c") == ["c/d+e.whl"]
    bucket.remove("a/b.html")
    bucket.remove("a/b.html")
    assert bucket.names() == ["c/d+e.whl"]


def test_what_is_there_is_not_added_again(opened: Callable[[], Bucket], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"of a file")
    assert opened().add("files/a", file)
    assert not opened().add("files/a", b"other")
    assert opened().read("files/a") == b"of a file"


def test_publishers_work_one_after_the_other(opened: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_buckets, "_LOOK_SECONDS", 0.02)
    told: list[str] = []

    def publish(name: str) -> None:
        with opened().alone():
            told.append(f"{name} begins")
            time.sleep(0.1)
            told.append(f"{name} ends")

    threads = [threading.Thread(target=publish, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 6
    assert all(
        begins.removesuffix("begins") == ends.removesuffix("ends")
        for begins, ends in zip(told[::2], told[1::2], strict=True)
    )
    assert opened().names() == []


def test_who_waits_too_long_gives_up(opened: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_buckets, "_LOOK_SECONDS", 0.02)
    with opened().alone(), pytest.raises(PublishError, match="another publisher is at work"), opened().alone(wait=0.1):
        pass
    with opened().alone(wait=0):
        pass


def test_a_failure_within_releases_it(opened: Callable[[], Bucket]) -> None:
    with pytest.raises(KeyError), opened().alone():
        raise KeyError
    with opened().alone(wait=0):
        pass


class TestClaimsOnABucket:
    def test_one_that_has_run_out_is_taken_over(
        self, s3: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(s3_buckets, "LEASE_SECONDS", 0.05)
        first, second = s3(), s3()
        with first.alone():
            time.sleep(0.1)
            with second.alone(wait=1):
                second.write("a", b"second")
                with pytest.raises(PublishError, match="another publisher is at work"):
                    first.write("a", b"first")
        assert s3().read("a") == b"second"

    def test_one_that_is_renewed_is_kept(self, s3: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(s3_buckets, "LEASE_SECONDS", 1.0)
        bucket = s3()
        with bucket.alone():
            for number in range(6):
                time.sleep(0.3)
                bucket.write(f"{number}", b"")
            with pytest.raises(PublishError), s3().alone(wait=0):
                pass


def test_browsers_and_caches_are_told_what_it_is(s3: Callable[[], Bucket], s3_server: str, s3_client: Any) -> None:
    bucket = s3()
    bucket.write("nightly/cpu/vllm/index.html", b"<p>")
    bucket.add("files/aa/vllm-1.whl", b"wheel")
    name = bucket.name.split("/")[2]
    page = s3_client.head_object(Bucket=name, Key="some/prefix/nightly/cpu/vllm/index.html")
    wheel = s3_client.head_object(Bucket=name, Key="some/prefix/files/aa/vllm-1.whl")
    assert page["ContentType"] == "text/html; charset=utf-8"
    assert page["CacheControl"] == "max-age=60"
    assert wheel["CacheControl"].endswith("immutable")
    assert urllib.request.urlopen(s3_server).status == 200


def test_a_bucket_that_is_not_there(s3: Callable[[], Bucket]) -> None:
    assert s3
    bucket = S3Bucket("s3://no-such-bucket-here")
    with pytest.raises(PublishError, match="cannot write a") as raised:
        bucket.write("a", b"")
    assert raised.value.where == "s3://no-such-bucket-here"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        Folder(tmp_path / "file" / "below")


@pytest.mark.parametrize("place", ["ftp://a/b", "s3://", "https://a/b"])
def test_a_place_that_is_none(place: str) -> None:
    with pytest.raises(UsageError):
        open_bucket(place)


def test_without_an_endpoint_it_is_a_bucket_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    assert open_bucket("s3://bucket/prefix").name == "s3://bucket/prefix"


def test_a_folder_is_named_by_path_or_url(tmp_path: Path) -> None:
    open_bucket(str(tmp_path / "a b")).write("x", b"1")
    assert open_bucket((tmp_path / "a b").as_uri().replace("%20", " ")).read("x") == b"1"


class TestAnotherPublisherTookOver:
    """The claim of the first one has expired while it was at work; neither knows the other's clock."""

    @pytest.fixture
    def first(self, s3: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch) -> Bucket:
        monkeypatch.setattr(s3_buckets, "LEASE_SECONDS", 0.05)
        monkeypatch.setattr(s3_buckets.S3Bucket, "_require_claim", lambda _: None)  # looked just before it was lost
        return s3()

    def test_a_page_that_it_read_before_is_not_overwritten(self, first: Bucket, s3: Callable[[], Bucket]) -> None:
        s3().write("page", b"old")
        with first.alone():
            assert first.read("page") == b"old"
            time.sleep(1.1)
            with s3().alone(wait=1) as _:
                s3().write("page", b"second")
            with pytest.raises(PublishError, match="another publisher"):
                first.write("page", b"first")
        assert s3().read("page") == b"second"

    def test_a_page_that_was_not_there_is_not_overwritten(self, first: Bucket, s3: Callable[[], Bucket]) -> None:
        with first.alone():
            assert first.read("page") is None
            s3().write("page", b"second")
            with pytest.raises(PublishError, match="another publisher"):
                first.write("page", b"first")
        assert s3().read("page") == b"second"


def test_the_clock_of_a_publisher_does_not_count(s3: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    with s3().alone():
        monkeypatch.setattr(time, "time", lambda: now() + 901)
        with pytest.raises(PublishError, match="another publisher is at work"), s3().alone(wait=0):
            pass


def test_claims_are_numbered(s3: Callable[[], Bucket]) -> None:
    tokens = []
    for _ in range(3):
        bucket = s3()
        with bucket.alone():
            assert isinstance(bucket, S3Bucket)
            assert bucket._held is not None
            tokens.append(bucket._held.token)
    assert tokens == [1, 2, 3]


def test_a_release_leaves_the_claim_of_who_took_over(s3: Callable[[], Bucket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_buckets, "LEASE_SECONDS", 0.05)
    first, second = s3(), s3()
    with contextlib.ExitStack() as stack:
        with first.alone():
            time.sleep(1.1)
            stack.enter_context(second.alone(wait=1))
        monkeypatch.setattr(s3_buckets, "LEASE_SECONDS", 900.0)
        with pytest.raises(PublishError, match="another publisher is at work"), s3().alone(wait=0):
            pass
        second.write("a", b"second")


class TestPowerCut:
    """What is on the disk when: a record of each call that makes something durable or visible."""

    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        found: list[str] = []
        sync, replace = os.fsync, Path.replace

        def name(handle: int) -> str:
            return Path(f"/proc/self/fd/{handle}").readlink().name

        def fsync(handle: int) -> None:
            found.append("sync folder " + name(handle) if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")
            sync(handle)

        def rename(self: Path, target: Path) -> Path:
            found.append(f"rename {target.name}")
            return replace(self, target)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Path, "replace", rename)
        return found

    def test_a_file_has_its_content_before_its_name_and_both_before_the_next_file(
        self, tmp_path: Path, calls: list[str]
    ) -> None:
        bucket = Folder(tmp_path / "index")
        bucket.add("files/aa/a.whl", b"wheel")
        bucket.write("nightly/index.html", b"page")
        bucket.write("nightly/index.html", b"page two")
        assert calls == [
            f"sync folder {tmp_path.name}",
            *("sync file", "sync folder index", "sync folder files", "rename a.whl", "sync folder aa"),
            *("sync file", "sync folder index", "rename index.html", "sync folder nightly"),
            *("sync file", "rename index.html", "sync folder nightly"),
        ]

    def test_removal_is_durable(self, tmp_path: Path, calls: list[str]) -> None:
        bucket = Folder(tmp_path / "index")
        bucket.write("a", b"")
        del calls[:]
        bucket.remove("a")
        assert calls == ["sync folder index"]


class TestLinksInAFolder:
    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "file").write_text("the user's")
        return tmp_path / "outside"

    @pytest.mark.parametrize("path", ["link", "folder/file", "../outside/file", "/etc/hostname", "a/./b", ""])
    def test_nothing_is_read_written_or_removed_through_one(self, tmp_path: Path, outside: Path, path: str) -> None:
        bucket = Folder(tmp_path / "index")
        (tmp_path / "index" / "link").symlink_to(outside / "file")
        (tmp_path / "index" / "folder").symlink_to(outside)
        for act in (bucket.read, bucket.remove, lambda one: bucket.write(one, b"x"), lambda one: bucket.add(one, b"x")):
            with pytest.raises(PublishError, match="is a link or something else"):
                act(path)
        assert (outside / "file").read_text() == "the user's"
        assert list(outside.iterdir()) == [outside / "file"]

    def test_a_pipe_does_not_hang_it(self, tmp_path: Path) -> None:
        bucket = Folder(tmp_path / "index")
        os.mkfifo(tmp_path / "index" / "page")
        with pytest.raises(PublishError, match="is a link or something else"):
            bucket.read("page")

    def test_what_a_killed_publisher_began_is_removed(self, tmp_path: Path) -> None:
        bucket = Folder(tmp_path / "index")
        (tmp_path / "index" / ".publishing.unfinished").mkdir()
        (tmp_path / "index" / ".publishing.unfinished" / "half").write_text("half")
        assert bucket.names() == []
        with bucket.alone():
            pass
        assert not (tmp_path / "index" / ".publishing.unfinished").exists()
