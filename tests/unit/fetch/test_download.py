from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import DigestMismatchError, DiskFullError, DownloadError, StoreError
from cpuwheels.core.usage import Fetched, counted
from cpuwheels.fetch.download import ATTEMPTS, Pinned, download, fetch, is_stored, mirrored
from loopback import DEAD, Answer, Server

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.store import Store

GOOD = b"the pinned bytes\n" * 1000
SHA256 = hashlib.sha256(GOOD).hexdigest()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds waited between tries, without waiting."""
    waited: list[float] = []
    monkeypatch.setattr("cpuwheels.fetch.download.time.sleep", waited.append)
    return waited


def pinned(*urls: str, size: int | None = len(GOOD)) -> Pinned:
    return Pinned("the file", urls, SHA256, size)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if not path.name.endswith(".lock") and path.is_file())


def test_the_first_mirror_that_has_it_is_enough(server: Server, store: Store) -> None:
    first, second = server.serve("/1/f.tar.gz", Answer(GOOD)), server.serve("/2/f.tar.gz", Answer(GOOD))
    path = fetch(pinned(first, second), store)
    assert (path.name, path.read_bytes()) == ("f.tar.gz", GOOD)
    assert server.asked == ["/1/f.tar.gz"]


def test_what_comes_over_the_network_is_counted(server: Server, store: Store, tmp_path: Path) -> None:
    url = server.serve("/f", Answer(GOOD[:100], announced=len(GOOD)), Answer(GOOD))
    (tmp_path / "other").write_bytes(b"other bytes")
    with counted() as usage:
        for _ in range(2):
            fetch(pinned(url), store)
        copied = Pinned("another", (str(tmp_path / "other"),), hashlib.sha256(b"other bytes").hexdigest())
        fetch(copied, store)
    assert usage.fetched() == Fetched({"http": 100 + len(GOOD)}, 1)
    assert usage.stored().keys() == {"downloads"}


@pytest.mark.parametrize(
    ("answers", "tries"),
    [
        ([Answer(status=404)], 1),
        ([Answer(status=403)], 1),
        ([Answer(status=503)], ATTEMPTS),
        ([Answer(GOOD[:100], announced=len(GOOD))], ATTEMPTS),
        ([Answer(GOOD[:100])], 1),
        ([Answer(b"<html>sign in</html>" * 1000)], 1),
        ([Answer(status=302, headers={"Location": "/bad"})], 1),
    ],
    ids=["missing", "forbidden", "ill", "cut", "short", "other bytes", "round and round"],
)
def test_a_bad_mirror_is_passed_over(
    server: Server, tmp_path: Path, pauses: list[float], answers: list[Answer], tries: int
) -> None:
    bad, good = server.serve("/bad", *answers), server.serve("/good", Answer(GOOD))
    assert download(pinned(bad, good), tmp_path / "f") == SHA256
    assert (tmp_path / "f").read_bytes() == GOOD
    assert leftovers(tmp_path) == ["f"]
    assert server.asked[-1] == "/good"
    assert len(pauses) == tries - 1


@pytest.mark.parametrize(
    "url", [f"{DEAD}/f", "file:///nowhere/f", "http://[::bad/f", "ftp://127.0.0.1/etc/hostname", "f"]
)
def test_what_cannot_be_reached_is_passed_over_at_once(
    server: Server, tmp_path: Path, pauses: list[float], url: str
) -> None:
    assert download(pinned(url, server.serve("/f", Answer(GOOD))), tmp_path / "f") == SHA256
    assert pauses == []
    with pytest.raises(DownloadError) as raised:
        download(pinned(url), tmp_path / "g")
    assert url in raised.value.output
    assert raised.value.next_step
    assert leftovers(tmp_path) == ["f"]


def test_a_fault_that_passes_is_tried_again(server: Server, tmp_path: Path, pauses: list[float]) -> None:
    url = server.serve("/f", Answer(status=502), Answer(GOOD[:9], announced=len(GOOD)), Answer(GOOD))
    assert download(pinned(url), tmp_path / "f") == SHA256
    assert len(pauses) == 2
    assert pauses[0] < pauses[1]


def test_a_cut_download_is_told_as_that(server: Server, store: Store) -> None:
    with pytest.raises(DownloadError, match="the file") as raised:
        fetch(pinned(server.serve("/f", Answer(GOOD[:100], announced=len(GOOD)))), store)
    assert server.asked == ["/f"] * ATTEMPTS
    assert "/f: " in raised.value.output
    assert leftovers(store.root) == []


def test_a_whole_answer_with_too_few_bytes_is_truncated_not_forged(server: Server, store: Store) -> None:
    with pytest.raises(DownloadError) as raised:
        fetch(pinned(server.serve("/f", Answer(GOOD[:100]))), store)
    assert f"truncated: 100 of {len(GOOD)} bytes" in raised.value.output
    assert leftovers(store.root) == []


def test_other_bytes_on_every_mirror_are_told_with_both_digests(server: Server, store: Store) -> None:
    other = b"x" * len(GOOD)
    urls = [server.serve(path, Answer(other)) for path in ("/1", "/2")]
    with pytest.raises(DigestMismatchError) as raised:
        fetch(pinned(*urls), store)
    assert hashlib.sha256(other).hexdigest() in raised.value.what
    assert SHA256 in raised.value.what
    assert raised.value.where in urls
    assert server.asked == ["/1", "/2"]
    assert leftovers(store.root) == []


@pytest.mark.parametrize("body", [b"x" * len(GOOD), GOOD[:100]], ids=["other bytes", "truncated"])
def test_a_failed_download_leaves_the_old_file_and_nothing_else(server: Server, tmp_path: Path, body: bytes) -> None:
    (tmp_path / "f").write_text("old")
    with pytest.raises((DigestMismatchError, DownloadError)):
        download(pinned(server.serve("/f", Answer(body))), tmp_path / "f")
    assert leftovers(tmp_path) == ["f"]
    assert (tmp_path / "f").read_text() == "old"


def test_a_mismatch_outweighs_a_mirror_that_is_away(server: Server, store: Store) -> None:
    with pytest.raises(DigestMismatchError):
        fetch(pinned(server.serve("/1", Answer(b"x" * len(GOOD))), f"{DEAD}/2"), store)


def test_no_network_is_needed_afterwards(server: Server, store: Store) -> None:
    url = server.serve("/f", Answer(GOOD))
    assert not is_stored(SHA256, store)
    fetch(pinned(url), store)
    assert is_stored(SHA256, store)
    assert fetch(pinned(f"{DEAD}/f"), store).read_bytes() == GOOD
    assert fetch(pinned(f"{DEAD}/another-name"), store).read_bytes() == GOOD
    assert server.asked == ["/f"]


def test_a_damaged_file_in_the_store_is_fetched_again(server: Server, store: Store) -> None:
    url = server.serve("/f", Answer(GOOD))
    fetch(pinned(url), store).write_bytes(b"rot")
    assert fetch(pinned(url), store).read_bytes() == GOOD
    assert server.asked == ["/f", "/f"]


def test_a_folder_is_a_mirror_too(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a folder" / "f+1.tar.gz").write_bytes(GOOD)
    url = (tmp_path / "a folder" / "f+1.tar.gz").as_uri()
    assert "%20" in url
    path = fetch(pinned(url), store)
    assert (path.name, path.read_bytes()) == ("f+1.tar.gz", GOOD)


def test_a_server_that_would_pack_the_file_once_more_is_told_not_to(server: Server, tmp_path: Path) -> None:
    assert download(pinned(server.serve("/f", Answer(GOOD, compresses=True))), tmp_path / "f") == SHA256


def test_a_redirect_is_followed(server: Server, tmp_path: Path) -> None:
    server.serve("/real", Answer(GOOD))
    assert download(pinned(server.serve("/f", Answer(status=301, headers={"Location": "/real"}))), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == GOOD


def test_without_a_digest_any_bytes_will_do_but_they_cannot_be_kept(
    server: Server, tmp_path: Path, store: Store
) -> None:
    loose = Pinned("list", (server.serve("/f", Answer(GOOD)),), None)
    assert download(loose, tmp_path / "f") == SHA256
    with pytest.raises(ValueError, match="no digest"):
        fetch(loose, store)


def test_progress_is_told_to_the_last_byte(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    download(pinned(server.serve("/f", Answer(GOOD))), tmp_path / "f", on_bytes=lambda *told: seen.append(told))
    assert seen[-1] == (len(GOOD), len(GOOD))


def test_a_full_disk_is_told_as_that(server: Server, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_handle: int) -> None:
        with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123  (what the system says of a full disk)
            full.write(b"x")

    (store.root / "downloads").mkdir(parents=True)
    (store.root / "locks").mkdir()
    monkeypatch.setattr("os.fsync", fsync)
    with pytest.raises(DiskFullError) as raised:
        fetch(pinned(server.serve("/f", Answer(GOOD)), server.serve("/g", Answer(GOOD))), store)
    assert "free space" in raised.value.next_step
    assert server.asked == ["/f"]
    assert leftovers(store.root) == []


def test_a_target_folder_that_is_a_file_is_told(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        download(pinned(server.serve("/f", Answer(GOOD))), tmp_path / "file" / "f")


def test_mirrored() -> None:
    assert mirrored("pool/a.deb", ["http://a/debian/", "file:///b"]) == (
        "http://a/debian/pool/a.deb",
        "file:///b/pool/a.deb",
    )
