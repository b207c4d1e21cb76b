"""What an index and a wheel say of a Python package."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cpuwheels.fetch.locks.python_facts import licence_of, releases, stated_licence
from loopback import Answer, Server
from small_wheels import write_wheel


@pytest.mark.parametrize(
    ("headers", "licence"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: other", "MIT OR Apache-2.0"),
        ("License: long text\nClassifier: License :: OSI Approved :: MIT License", "MIT License"),
        ("License: BSD\n  and more", "BSD"),
        ("Name: a", ""),
    ],
)
def test_the_licence_that_a_package_states(headers: str, licence: str) -> None:
    assert stated_licence(f"Metadata-Version: 2.4\n{headers}\n\ntext".encode()) == licence


def test_versions_of_an_index_with_their_age_and_the_wheel_for_x86() -> None:
    names = ["a-1.tar.gz", "a-1-cp311-cp311-manylinux_2_28_aarch64.whl", "a-1-cp311-cp311-manylinux_2_28_x86_64.whl"]
    files = [
        {"filename": name, "url": f"https://x.org/{name}", "hashes": {"sha256": str(number) * 64}, "size": number + 1}
        | {"upload-time": f"2026-11-0{3 - number}T00:00:00Z"}
        for number, name in enumerate(names)
    ]
    with Server() as server:
        body = json.dumps({"files": [*files, {"filename": "odd.zip", "url": "x"}]}).encode()
        server.serve("/simple/a/", Answer(body, headers={"Content-Type": "application/vnd.pypi.simple.v1+json"}))
        found = releases("A", {"CPUWHEELS_PYPI_INDEX": server.url("/simple")})
        assert found.keys() == {"1"}
        assert found["1"].uploaded == datetime(2026, 11, 1, tzinfo=UTC)
        assert (found["1"].sha256, found["1"].size) == ("2" * 64, 3)
        assert releases("b", {"CPUWHEELS_PYPI_INDEX": server.url("/simple")}) == {}


def test_a_licence_is_read_from_the_end_of_a_wheel(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "a", "1")
    text = "application/vnd.pypi.simple.v1+json"
    with Server() as server:
        url = server.serve(f"/{wheel.name}", Answer(wheel.read_bytes(), ranges=True))
        body = json.dumps({"files": [{"filename": wheel.name, "url": url}]}).encode()
        server.serve("/simple/a/", Answer(body, headers={"Content-Type": text}))
        release = releases("a", {"CPUWHEELS_PYPI_INDEX": server.url("/simple")})["1"]
        assert licence_of(release) == ""  # it states none
        server.serve(f"/{wheel.name}", Answer(status=500))
        assert licence_of(release) == ""
    assert licence_of(None) == ""
