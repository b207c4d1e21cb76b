"""The newest wheels of an index: in order, within limits, and whatever a newer version adds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.errors import DownloadError, PublishError, UsageError
from cpuwheels.index.bucket import Folder
from cpuwheels.index.publish import publish
from cpuwheels.rebuild.site.newest import newest_wheels
from index_publications import publication
from loopback import DEAD, Answer, Server
from rebuilder_sites import serving


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    for number, target in ((1, "x86"), (3, "x86"), (3, "arm"), (2, "x86")):
        publish(Folder(tmp_path / "index"), publication(tmp_path / "dist", number, target))
    with serving(tmp_path / "index") as url:
        yield url


def test_the_newest_come_first(address: str, tmp_path: Path) -> None:
    found = newest_wheels(f"{address}/", 20, None)
    assert [(int(one.source, 16), one.target) for one in found] == [(3, "arm"), (3, "x86"), (2, "x86"), (1, "x86")]
    assert [int(one.source, 16) for one in newest_wheels(address, 2, "x86")] == [3, 2]
    first = publication(tmp_path / "again", 3, "arm").entry
    assert (found[0].name, found[0].sha256) == (first.filename, first.sha256)
    assert found[0].url.startswith(f"{address}/files/{first.sha256[:16]}/vllm-")
    assert "%2B" in found[0].url


def test_no_index(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no address"):
        newest_wheels(str(tmp_path), 1, None)
    with pytest.raises(DownloadError, match="cannot read the index: no connection"):
        newest_wheels(DEAD, 1, None)
    with serving(tmp_path / "empty") as url, pytest.raises(PublishError, match="there is no index of cpuwheels"):
        newest_wheels(url, 1, None)


ROW = {
    "commit": "a" * 40,
    "version": "1",
    "made": "2026-11-22T23:00:00Z",
    "wheels": {"x86": {"filename": "a-1.whl", "path": "files/ab/a-1.whl", "sha256": "1" * 64}},
}


def served(data: Any) -> list[str]:
    with Server() as server:
        server.serve("/commits.json", Answer(json.dumps(data).encode(), headers={"Content-Type": "application/json"}))
        return [one.name for one in newest_wheels(server.url(""), 9, None)]


def test_a_newer_index_may_say_more() -> None:
    assert served({"newest": [{**ROW, "new": 1}], "format": 2}) == ["a-1.whl"]


@pytest.mark.parametrize(
    "wheel",
    [
        {"path": "https://evil.example.org/a-1.whl"},
        {"path": "files/../../a-1.whl"},
        {"filename": "a/../b.whl"},
        {"sha256": ""},
    ],
)
def test_a_wheel_elsewhere_is_refused(wheel: dict[str, str]) -> None:
    changed = {**ROW, "wheels": {"x86": {**ROW["wheels"]["x86"], **wheel}}}  # type: ignore[index]
    with pytest.raises(DownloadError, match="its list of commits is not what it has to be"):
        served({"newest": [changed]})


def test_a_wheel_of_another_name_is_left_out() -> None:
    changed = {**ROW, "wheels": {"x86": {**ROW["wheels"]["x86"], "filename": "b-1.whl"}}}  # type: ignore[index]
    assert served({"newest": [changed]}) == []
