from __future__ import annotations

import io
import random
import zipfile

import pytest

from cpuwheels.core.errors import DownloadError
from cpuwheels.fetch.http_range import NoRangesError, remote_file
from loopback import DEAD, Answer, Server

BODY = random.Random(1).randbytes(5 << 20)


def test_a_part_costs_little_more_than_itself() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("first", BODY)
        written.writestr("second", BODY)
        written.writestr("last", b"little")
    with Server() as server:
        url = server.serve("/a.whl", Answer(archive.getvalue(), ranges=True))
        with remote_file(url) as stream, zipfile.ZipFile(stream) as found:
            assert found.read("last") == b"little"
        assert len(server.asked) == 1
        assert server.sent < 2 << 20


@pytest.mark.parametrize("seed", range(5))
def test_any_part_can_be_read(seed: int) -> None:
    draw = random.Random(seed)
    with Server() as server, remote_file(server.serve("/a", Answer(BODY, ranges=True))) as stream:
        assert stream.seekable()
        for _ in range(10):
            start = draw.randrange(len(BODY) + 100)
            size = draw.choice([1, 1000, 1 << 18, 3 << 20])
            assert stream.seek(start) == start
            assert stream.read(size) == BODY[start : start + size]
        assert stream.seek(-3, io.SEEK_END) == len(BODY) - 3
        assert stream.read() == BODY[-3:]


def test_a_file_shorter_than_the_tail() -> None:
    with Server() as server, remote_file(server.serve("/a", Answer(b"short", ranges=True))) as stream:
        assert stream.read() == b"short"


def test_a_server_that_hands_out_whole_files_only() -> None:
    with Server() as server, pytest.raises(NoRangesError):
        remote_file(server.serve("/a", Answer(BODY)))


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_refuses(status: int) -> None:
    with Server() as server:
        url = server.serve("/a", Answer(status=status))
        with pytest.raises(DownloadError) as caught:
            remote_file(url)
    assert caught.value.where == url


def test_no_server() -> None:
    with pytest.raises(DownloadError):
        remote_file(f"{DEAD}/a")
