"""A shared store in a bucket: who reads signs no request, and who does not answer is not waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.elsewhere import taken_from
from cpuwheels.core.errors import SharedStoreError
from cpuwheels.core.store import Store
from cpuwheels.shared import s3
from cpuwheels.shared.address import open_place
from cpuwheels.shared.place import PlaceFaultError
from cpuwheels.shared.s3 import Bucket
from loopback import DEAD
from other_s3 import OtherS3
from raw_server import RawServer, head
from shared_stores import KERNELS, Open, make_kernels, other_store, reader, share_all


def test_a_process_that_builds_reads_without_credentials(
    store: Store, tmp_path: Path, s3_client: Any, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    s3_client.create_bucket(Bucket="public")
    make_kernels(store)
    place = Bucket("s3://public/prefix", writes=True)
    share_all(store, place)
    for one in place.objects():
        s3_client.put_object_acl(Bucket="public", Key=f"prefix/{one.path}", ACL="public-read")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with taken_from(reader(open_place("s3://public/prefix", writes=False), told)):
        assert other_store(tmp_path / "other").find("kernels", KERNELS)
    assert told == []


def test_a_bucket_that_may_not_be_read(store: Store, tmp_path: Path, bucket: Open, told: list[str]) -> None:
    make_kernels(store)
    share_all(store, bucket())
    other = other_store(tmp_path / "other")
    with taken_from(reader(open_place(bucket().name, writes=False), told)):
        assert [other.find("kernels", key) for key in (KERNELS, "f" * 24)] == [None, None]
    (line,) = told
    assert "refuses to be read (403)" in line


def test_a_bucket_that_is_not_there(s3_client: Any, tmp_path: Path, told: list[str]) -> None:
    assert s3_client
    with pytest.raises(PlaceFaultError, match="cannot write a"):
        Bucket("s3://no-such-bucket-here", writes=True).add("a", b"x")
    with pytest.raises(PlaceFaultError, match="cannot list it"):
        list(Bucket("s3://no-such-bucket-here", writes=True).objects())
    # S3 answers 404 for the object, as if it were only that which is missing.
    with taken_from(reader(Bucket("s3://no-such-bucket-here", writes=False), told)):
        assert other_store(tmp_path / "other").find("kernels", KERNELS) is None


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_READ_SECONDS", "300ms")
    monkeypatch.setattr(s3, "_RETRIES", {"max_retries": 0})


@pytest.mark.usefixtures("quick")
def test_no_server_is_reported_once(tmp_path: Path, told: list[str]) -> None:
    place = Bucket("s3://bucket", writes=False, environ={"AWS_ENDPOINT_URL": DEAD})
    other = other_store(tmp_path / "other")
    with taken_from(reader(place, told)):
        assert [other.find("kernels", key * 24) for key in "abc"] == [None] * 3
    (line,) = told
    assert line.startswith("the shared store is not used any more")


@pytest.mark.usefixtures("quick")
def test_a_slow_server_is_not_waited_for(tmp_path: Path, told: list[str]) -> None:
    def silent(_: str, send: Callable[[bytes], None]) -> None:
        del send
        threading.Event().wait(2)

    began = time.monotonic()
    other = other_store(tmp_path / "other")
    with RawServer(silent) as server:
        place = Bucket("s3://bucket", writes=False, environ={"AWS_ENDPOINT_URL": server.url("")})
        with taken_from(reader(place, told)):
            assert [other.find("kernels", key * 24) for key in "abc"] == [None] * 3
        assert time.monotonic() - began < 1.9
        assert len(server.asked) == 1
    assert len(told) == 1


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("status", ["500 Oops", "400 Bad Request"])
def test_a_server_that_refuses_is_not_asked_again(tmp_path: Path, told: list[str], status: str) -> None:
    other = other_store(tmp_path / "other")
    with RawServer(lambda _, send: send(head("Content-Length: 0", "Connection: close", status=status))) as server:
        place = Bucket("s3://bucket", writes=False, environ={"AWS_ENDPOINT_URL": server.url("")})
        with taken_from(reader(place, told)):
            assert [other.find("kernels", key * 24) for key in "ab"] == [None] * 2
        assert len(server.asked) == 1
    assert len(told) == 1


def test_the_endpoint_may_be_one_for_s3_alone(store: Store, s3_server: str, bucket: Open) -> None:
    assert bucket
    make_kernels(store)
    environ = {"AWS_ENDPOINT_URL_S3": s3_server, "AWS_ENDPOINT_URL": DEAD}
    place = Bucket(bucket().name, writes=True, environ=environ)
    (outcome,) = share_all(store, place)
    assert outcome.state == "shared"


class TestCutConnections:
    """The server loses an upload in the middle."""

    def test_an_upload_is_tried_again(self, store: Store, other_s3: OtherS3, other_bucket: Open) -> None:
        make_kernels(store)
        other_s3.cut = 1
        (outcome,) = share_all(store, other_bucket())
        assert outcome.state == "shared"
        assert len(other_s3.objects) == 2

    @pytest.mark.parametrize("after", [0, 1])
    def test_what_never_comes_through_is_no_entry(
        self, store: Store, tmp_path: Path, other_s3: OtherS3, other_bucket: Open, after: int, told: list[str]
    ) -> None:
        """The object is cut off, or the description that follows it."""
        make_kernels(store)
        put = other_s3._put

        def cut_later(handler: Any) -> None:
            if sum(method == "PUT" for method, _ in other_s3.asked) >= after:
                other_s3.cut = 1
            put(handler)

        other_s3._put = cut_later  # type: ignore[method-assign]
        with pytest.raises(SharedStoreError, match="cannot write"):
            share_all(store, other_bucket())
        assert len(other_s3.objects) == after
        other = other_store(tmp_path / "other")
        with taken_from(reader(other_bucket(), told)):
            assert other.find("kernels", KERNELS) is None
        assert told == []
        other_s3._put, other_s3.cut = put, 0  # type: ignore[method-assign]
        (outcome,) = share_all(store, other_bucket())
        assert outcome.state == "shared"


def test_a_wrong_object_in_a_bucket(
    store: Store, tmp_path: Path, other_s3: OtherS3, other_bucket: Open, told: list[str]
) -> None:
    make_kernels(store)
    share_all(store, other_bucket())
    (name,) = (name for name in other_s3.objects if name.endswith(".gz"))
    content = other_s3.objects[name].content
    other_s3.objects[name].content = content[:-1] + bytes([content[-1] ^ 1])
    with taken_from(reader(other_bucket(), told)):
        assert other_store(tmp_path / "other").find("kernels", KERNELS) is None
    assert "it has other bytes than its description says" in told[0]
