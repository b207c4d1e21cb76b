"""Wheels that a hostile commit made, published: each is data, and only what was asked for gets in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attacked_index import COMMIT, EPOCH, VERSION, Attacked, members
from bad_zips import ENCRYPTED, Member, deflate, overlapping
from cpuwheels.index import entry as entries

INFO = f"vllm-{VERSION}.cpu.dist-info"
BIG = 64 << 20


def rows_with(*more: tuple[str, str, str]) -> Callable[..., Any]:
    return lambda rows, info: [*rows, *more, (f"{info}/RECORD", "", "")]


WHEELS: dict[str, tuple[Callable[[], list[Member]], str]] = {
    "01-note-with-a-view-for-a-commit": (lambda: members(commit="nightly"), "no full hash"),
    "02-note-with-a-path-for-a-commit": (lambda: members(commit="../../home"), "no full hash"),
    "03-note-with-a-path-for-a-target": (lambda: members(target="../../latest/x86"), "has the target"),
    "04-note-with-nan": (lambda: members(note=b'{"format": NaN}'), "another version of cpuwheels"),
    "05-note-nested-deeply": (lambda: members(note=b"[" * 500_000), "another version of cpuwheels"),
    "06-record-without-a-file": (
        lambda: members(record=lambda rows, info: [*rows[1:], (f"{info}/RECORD", "", "")]),
        "is not in RECORD",
    ),
    "07-record-with-a-path-outside": (
        lambda: members(record=rows_with(("../../../etc/evil", "sha256=x", "1"))),
        "in RECORD and not in the wheel",
    ),
    "08-record-with-another-digest": (
        lambda: members(
            record=lambda rows, info: [(rows[0][0], "sha256=A", rows[0][2]), *rows[1:], (f"{info}/RECORD", "", "")]
        ),
        "does not have the digest",
    ),
    "09-record-with-a-file-twice": (
        lambda: members(record=lambda rows, info: [rows[0], *rows, (f"{info}/RECORD", "", "")]),
        "RECORD has a row that is none",
    ),
    "10-member-outside": (lambda: [*members(), Member("../../../home/evil", b"evil")], "is not a wheel"),
    "11-member-that-is-a-link": (lambda: [*members(), Member("vllm/door", b"/home", mode=0o120777)], "is not a wheel"),
    "12-encrypted-member": (lambda: [*members(), Member("vllm/a", b"x", flags=ENCRYPTED)], "is not a wheel"),
    "13-two-metadata": (lambda: [*members(), Member(f"{INFO}/METADATA", b"Name: other\n")], "is not a wheel"),
    "14-two-dist-info": (
        lambda: [*members(), Member("vllm-99.0.0.dist-info/METADATA", b"Name: vllm\n")],
        "one .dist-info folder",
    ),
    "15-metadata-of-64-mib": (lambda: members(metadata="x" * BIG), "METADATA has 64 MiB"),
    "16-bomb-that-claims-to-be-small": (
        lambda: [
            *members(record=rows_with(("vllm/a", "sha256=x", "1000"))),
            Member("vllm/a", packed=deflate(b"\0" * (2 * BIG)), size=1000),
        ],
        "has more than the 1000 bytes",
    ),
    "17-metadata-of-another-version": (
        lambda: members(metadata="Metadata-Version: 2.4\nName: vllm\nVersion: 99.0.0\n"),
        "METADATA says version 99.0.0",
    ),
    "18-metadata-of-another-project": (
        lambda: members(metadata=f"Metadata-Version: 2.4\nName: torch\nVersion: {VERSION}.cpu\n"),
        "METADATA names torch",
    ),
    "19-metadata-with-two-versions": (
        lambda: members(metadata=f"Name: vllm\nVersion: {VERSION}.cpu\nVersion: 99.0.0\n"),
        "METADATA has Version twice",
    ),
    "20-script-for-a-python-version": (
        lambda: members(metadata=f'Name: vllm\nVersion: {VERSION}.cpu\nRequires-Python: "><script>\n'),
        "Requires-Python that is none",
    ),
    "21-tags-of-another-machine": (lambda: members(tag="cp38-abi3-win_amd64"), "tag cp38-abi3-manylinux"),
}


@pytest.mark.parametrize("case", [pytest.param(name, id=name) for name in WHEELS])
def test_a_wheel_that_is_not_what_it_says(attacked: Attacked, case: str) -> None:
    make, words = WHEELS[case]
    attacked.refuses(attacked.write(make()), words)


def test_22_overlapping_members(attacked: Attacked) -> None:
    path = attacked.write(members())
    path.write_bytes(overlapping())
    attacked.refuses(path, "is not a wheel")


@pytest.mark.parametrize(
    ("version", "facts"),
    [
        pytest.param("99.0.0+cpu", {}, id="23-a-release-to-come"),
        pytest.param("99.0.0+cpu", {"commit": None}, id="24-a-release-without-its-commit"),
        pytest.param("0.32.1.dev7+g000000009.cpu", {"commit": f"{9:040x}"}, id="25-another-commit"),
        pytest.param("0.32.1.dev8+g000000007.cpu", {}, id="26-a-later-version"),
    ],
)
def test_a_wheel_that_says_it_is_another_one(attacked: Attacked, version: str, facts: dict[str, Any]) -> None:
    path = attacked.write(members(version, **facts), version)
    attacked.refuses(path, "was asked for|was built from commit", commit=COMMIT, version=VERSION)


def test_27_a_release_that_says_it_is_a_commit(attacked: Attacked) -> None:
    path = attacked.write(members("0.32.0+cpu"), "0.32.0+cpu")
    attacked.refuses(path, "was asked for", version="0.32.0")


def test_28_the_wheel_that_was_asked_for(attacked: Attacked) -> None:
    found = attacked.publish(attacked.write(members()), commit=COMMIT, version=VERSION)
    assert found.views == (COMMIT, "nightly")
    attacked.holds()


@pytest.mark.parametrize("kind", [pytest.param("link", id="29-a-link"), pytest.param("pipe", id="30-a-pipe")])
def test_a_wheel_that_is_no_file(attacked: Attacked, kind: str) -> None:
    path = attacked.write(members())
    path.unlink()
    if kind == "link":
        path.symlink_to(attacked.base / "home" / "secret")
    else:
        os.mkfifo(path)
    attacked.refuses(path, "is not a wheel")


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param(4_070_908_800, id="31-of-2099"),
        pytest.param(253_402_300_800, id="32-of-10000"),
        pytest.param(10**17, id="33-of-no-calendar"),
    ],
)
def test_a_commit_of_the_future_does_not_stay_the_newest(attacked: Attacked, epoch: int) -> None:
    attacked.publish(attacked.write(members(epoch=epoch)))
    attacked.holds()
    entry = attacked.publish(
        attacked.write(
            members("0.32.1.dev9+g000000009.cpu", commit=f"{9:040x}", epoch=epoch), "0.32.1.dev9+g000000009.cpu"
        )
    )
    assert "nightly" in entry.views
    assert entry.entry.made <= entry.entry.uploaded
    attacked.holds()


def test_34_a_commit_from_before_1970(attacked: Attacked) -> None:
    attacked.refuses(attacked.write(members(epoch=-1)), "before 1970")


def test_35_an_honest_wheel_after_a_future_one(attacked: Attacked, monkeypatch: pytest.MonkeyPatch) -> None:
    attacked.publish(attacked.write(members(epoch=4_070_908_800)))
    later = members("0.32.1.dev9+g000000009.cpu", commit=f"{9:040x}", epoch=EPOCH + 400 * 86_400)

    class Tomorrow(entries.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return entries.datetime.fromtimestamp(EPOCH + 500 * 86_400, tz)

    monkeypatch.setattr(entries, "datetime", Tomorrow)
    found = attacked.publish(attacked.write(later, "0.32.1.dev9+g000000009.cpu"))
    assert "nightly" in found.views
    assert Path(attacked.root / "nightly").is_dir()
