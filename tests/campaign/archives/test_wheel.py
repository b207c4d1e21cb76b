"""Attacks by a wheel."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from bad_zips import ENCRYPTED, Member, deflate, good, overlapping, quoted, write_zip

MIB = 1 << 20
INFO = "vllm-1.dist-info"
CLAIMED = (1 << 40, 1 << 30)
"""Bytes, unpacked and packed, that a zip64 field claims."""

MEMBERS: dict[str, list[Member]] = {
    "91-absolute": good("/etc/evil"),
    "92-parent": good("../evil"),
    "93-parent-from-below": good("vllm/../../evil"),
    "94-backslash": good("..\\evil"),
    "95-path-max": [Member("/".join(["d" * 247] * 16) + "/evil", b"x")],
    "96-link": [Member("vllm/door", b"/home", mode=0o120777)],
    "97-file-through-a-link": [Member("door", b"..", mode=0o120777), *good("door/evil")],
    "98-device": [Member("vllm/null", mode=0o020666)],
    "99-setuid": [Member("vllm/su", b"x", mode=0o104755)],
    "100-two-metadata": [*good(f"{INFO}/METADATA"), *good(f"{INFO}/METADATA")],
    "101-file-below-a-file": good("vllm", "vllm/evil"),
    "102-encrypted": [Member("vllm/a", b"x", flags=ENCRYPTED)],
    "103-nul-in-a-name": good("vllm/a.py\0.txt"),
    "104-escape-in-a-name": good("vllm/\x1b[2J"),
    "105-300-bytes-in-a-name": good("x" * 300),
    "106-large": [Member("vllm/a", b"\0" * (3 * MIB))],
    "107-large-together": [Member(f"vllm/{number}", b"\0" * MIB) for number in range(5)],
    "108-many-members": good(*(f"vllm/{number}" for number in range(2001))),
    "109-bomb-that-claims-to-be-small": [Member("vllm/a", packed=deflate(b"\0" * (96 * MIB)), size=100_000)],
    "110-zip64-lie": [
        Member(
            "vllm/a",
            b"abc",
            listed={"size": 0xFFFFFFFF, "packed": 0xFFFFFFFF},
            listed_extra=struct.pack("<2H2Q", 1, 16, *CLAIMED),
        )
    ],
    "111-another-name-in-its-own-header": [Member("vllm/a", b"x", listed_name="vllm/b")],
    "112-another-name-in-an-extra-field": [Member("vllm/a", b"x", listed_extra=b"\x75\x70\x06\0\1\0\0\0\0b")],
    "113-hidden-member": [Member("vllm/b", b"y", before=write_zip(good("vllm/a"))[:60])],
    "114-other-checksum": [Member("vllm/a", b"x", crc=1)],
    "115-shorter-than-claimed": [Member("vllm/a", b"x", size=9)],
    "116-method-that-wheels-do-not-use": [Member("vllm/a", b"x", method=14)],
}


@pytest.mark.parametrize("members", MEMBERS.values(), ids=MEMBERS)
def test_members(refused: Callable[..., str], members: list[Member]) -> None:
    refused("wheel", write_zip([*good("vllm/good"), *members]))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(overlapping(), id="117-overlapping"),
        pytest.param(quoted(), id="118-within-one-another"),
        pytest.param(write_zip(good("a")) + write_zip(good("b")), id="119-two-archives"),
        pytest.param(write_zip(good("a", "b"), count=1), id="120-fewer-members-claimed"),
        pytest.param(write_zip(good("a"), comment=write_zip(good("b"))), id="121-another-archive-as-comment"),
        pytest.param(write_zip(good("a"))[:-30], id="122-cut-off"),
        pytest.param(write_zip(good("a"), start=0xFFFFFF), id="123-list-elsewhere"),
        pytest.param(b"<html>sign in</html>", id="124-no-archive"),
    ],
)
def test_archive(refused: Callable[..., str], data: bytes) -> None:
    refused("wheel", data)
