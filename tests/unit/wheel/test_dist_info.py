"""A wheel's ``.dist-info`` folder and its ``RECORD``."""

from __future__ import annotations

import base64
import csv
import hashlib

import pytest

from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.dist_info import content_digest, dist_info_of, record_digest, render_record


def test_the_folder_is_found() -> None:
    names = ["vllm/x.dist-info/METADATA", "vllm-1.0.dist-info/METADATA", "vllm-1.0.dist-info/RECORD", "a.dist-info.py"]
    assert dist_info_of(names) == "vllm-1.0.dist-info"


@pytest.mark.parametrize(
    ("names", "count"), [(["vllm/a.py"], 0), (["a-1.dist-info/METADATA", "b-1.dist-info/METADATA"], 2)]
)
def test_there_has_to_be_one(names: list[str], count: int) -> None:
    with pytest.raises(WheelError, match=f"this has {count}"):
        dist_info_of(names)


def test_digests_are_url_safe_and_not_padded() -> None:
    # All bits set: 63 is "_" in the alphabet of URLs and "/" in the other.
    assert record_digest(b"\xff" * 32) == "sha256=" + "_" * 42 + "8"
    digest = content_digest(b"content").removeprefix("sha256=")
    assert base64.urlsafe_b64decode(f"{digest}=") == hashlib.sha256(b"content").digest()


def test_paths_with_commas_can_be_read_again() -> None:
    rows = [("vllm/a,b.py", "sha256=x", "3"), ('say "no".py', "", ""), ("vllm-1.0.dist-info/RECORD", "", "")]
    text = render_record(rows).decode()
    assert [tuple(row) for row in csv.reader(text.splitlines())] == rows
    assert text.endswith(",,\n")
    assert "\r" not in text
