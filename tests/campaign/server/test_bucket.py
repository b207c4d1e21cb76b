"""Several publishers at one bucket, whose clocks, lives and networks are their own: none overwrites another's pages."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.errors import PublishError
from cpuwheels.index import s3 as module
from cpuwheels.index.bucket import LOCK
from cpuwheels.index.layout import JOURNAL, wheel_path
from cpuwheels.index.publish import publish
from cpuwheels.index.reading import read_entries
from cpuwheels.index.s3 import S3Bucket
from index_publications import DyingError, publication

Opened = Callable[[], S3Bucket]
BUSY = "another publisher is at work"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim lasts less than the second by which the server tells moments apart."""
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.05)


def contents(bucket: S3Bucket) -> dict[str, bytes | None]:
    return {name: bucket.read(name) for name in bucket.names()}


@pytest.mark.parametrize(
    "skew",
    [
        pytest.param(901, id="01-clock-901-seconds-ahead"),
        pytest.param(20 * 86_400, id="02-clock-20-days-ahead"),
        pytest.param(-86_400, id="03-clock-a-day-behind"),
    ],
)
def test_the_clock_of_who_waits(opened: Opened, monkeypatch: pytest.MonkeyPatch, skew: float) -> None:
    now = time.time
    first = opened()
    with first.alone():
        first.write("page", b"first")
        monkeypatch.setattr(time, "time", lambda: now() + skew)
        with pytest.raises(PublishError, match=BUSY), opened().alone(wait=0.2):
            pass
        first.write("page", b"first again")
    assert opened().read("page") == b"first again"


@contextlib.contextmanager
def overtaken(opened: Opened, seen: str = "") -> Any:
    """Yield a publisher whose claim another one has taken over, and the other one, which has written a page."""
    first, second = opened(), opened()
    opened().write("page", b"before")
    with contextlib.ExitStack() as stack:
        with first.alone():
            if seen:
                first.read(seen)
            time.sleep(1.1)
            stack.enter_context(second.alone(wait=2))
            second.write("page", b"second")
            yield first, second
        second.write("end", b"")


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda bucket: bucket.write("page", b"first"), id="04-writes-a-page"),
        pytest.param(lambda bucket: bucket.write("other", b"first"), id="05-writes-a-new-page"),
        pytest.param(lambda bucket: bucket.remove("page"), id="06-removes-a-page"),
        pytest.param(lambda bucket: bucket.add("files/a", b"first"), id="07-adds-a-file"),
    ],
)
def test_who_was_overtaken(opened: Opened, act: Callable[[S3Bucket], object]) -> None:
    with overtaken(opened) as (first, _), pytest.raises(PublishError, match=BUSY):
        act(first)
    assert contents(opened()) == {"page": b"second", "end": b""}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "seen", [pytest.param("page", id="08-after-it-read-the-page"), pytest.param("", id="09-that-it-never-read")]
)
def test_who_is_overtaken_between_its_look_at_the_claim_and_its_write(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, seen: str
) -> None:
    first = opened()
    opened().write("page", b"before")
    with first.alone():
        if seen:
            first.read(seen)
        look = first._require_claim

        def late() -> None:
            look()
            opened().write("page", b"second")

        monkeypatch.setattr(first, "_require_claim", late)
        with pytest.raises(PublishError, match=BUSY):
            first.write("page", b"first")
    assert opened().read("page") == b"second"


@pytest.mark.usefixtures("short")
def test_10_who_was_overtaken_leaves_the_others_claim(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    with overtaken(opened) as (_, second):
        pass
    monkeypatch.setattr(module, "LEASE_SECONDS", 900.0)
    with opened().alone(wait=0), pytest.raises(PublishError, match=BUSY), second.alone(wait=0):
        pass


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="11-empty"),
        pytest.param(b"null", id="12-null"),
        pytest.param(b"[" * 100_000, id="13-nested-deeply"),
        pytest.param(b'{"owner": "old", "until": 1e400}', id="14-of-an-earlier-version"),
        pytest.param(b'{"owner": 5, "token": "many"}', id="15-of-other-kinds"),
    ],
)
def test_a_damaged_claim(opened: Opened, s3_client: Any, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    bucket = opened()
    bucket.write("page", b"before")
    s3_client.put_object(Bucket=bucket.name.split("/")[2], Key=f"index/{LOCK}", Body=content)
    with pytest.raises(PublishError, match=BUSY), opened().alone(wait=0):
        pass
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.05)
    time.sleep(1.1)
    with opened().alone(wait=2):
        pass
    assert contents(opened()) == {"page": b"before"}


def test_16_five_publishers_at_once(opened: Opened, tmp_path: Path) -> None:
    wheels = [publication(tmp_path / "dist", number) for number in range(1, 6)]
    finished: list[int] = []

    def work(number: int) -> None:
        publish(opened(), wheels[number])
        finished.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(finished) == [0, 1, 2, 3, 4]
    for one in wheels:
        assert read_entries(opened(), one.entry.commit or "") == [one.entry]
    assert [one.commit for one in read_entries(opened(), "nightly")] == [wheels[-1].entry.commit]


@pytest.mark.usefixtures("short")
def test_17_a_publisher_that_dies_is_finished_by_the_next(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (publication(tmp_path / "dist", number) for number in (1, 2))
    dying = opened()
    write = dying.write

    def until_the_journal(path: str, content: bytes) -> None:
        write(path, content)
        if path == JOURNAL:
            raise DyingError

    monkeypatch.setattr(dying, "write", until_the_journal)
    monkeypatch.setattr(dying, "_release", lambda: None)  # who is dead releases nothing
    with pytest.raises(DyingError):
        publish(dying, one)
    time.sleep(1.1)
    publish(opened(), two)
    assert read_entries(opened(), one.entry.commit or "") == [one.entry]
    assert opened().read(JOURNAL) is None


def test_18_other_bytes_under_a_published_name(opened: Opened, tmp_path: Path) -> None:
    publish(opened(), publication(tmp_path / "dist"))
    before = contents(opened())
    with pytest.raises(PublishError, match="with other bytes"):
        publish(opened(), publication(tmp_path / "dist", content="evil"))
    assert contents(opened()) == before


@pytest.mark.parametrize("damage", [pytest.param(b"evil", id="19-other-bytes"), pytest.param(b"", id="20-empty")])
def test_a_damaged_wheel_that_is_published_again(opened: Opened, s3_client: Any, tmp_path: Path, damage: bytes) -> None:
    one = publication(tmp_path / "dist")
    publish(opened(), one)
    before = contents(opened())
    bucket = opened()
    s3_client.put_object(Bucket=bucket.name.split("/")[2], Key=f"index/{wheel_path(one.entry)}", Body=damage)
    found = publish(opened(), one)
    assert (found.new, found.healed) == (False, True)
    assert contents(opened()) == before


def test_21_claims_have_numbers_that_grow(opened: Opened) -> None:
    tokens = []
    for _ in range(4):
        bucket = opened()
        with bucket.alone():
            assert bucket._held is not None
            tokens.append(bucket._held.token)
    assert tokens == [1, 2, 3, 4]


def test_22_a_bucket_that_is_not_there(opened: Opened) -> None:
    assert opened
    bucket = S3Bucket("s3://no-such-bucket")
    with pytest.raises(PublishError) as raised:
        bucket.write("page", b"")
    assert raised.value.next_step
