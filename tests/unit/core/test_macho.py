"""Signatures of Mach-O files, page by page."""

import hashlib
import struct

import pytest

from cpuwheels.core.macho import MAGIC, is_macho, read_macho, signature_faults

PAGE = 4096


def signed(code: bytes, *, flags: int = 0x20002, kind: int = 2, limit: int | None = None) -> bytes:
    """Return code with the signature that a linker puts behind it."""
    pages = [code[at : at + PAGE] for at in range(0, len(code), PAGE)]
    hashes = b"".join(hashlib.sha256(page).digest() for page in pages)
    directory = struct.pack(
        ">IIIIIIIIIBBBBI",
        *(0xFADE0C02, 44 + len(hashes), 0x20400, flags, 44, 0, 0, len(pages)),
        len(code) if limit is None else limit,
        *(32, kind, 0, 12, 0),
    )
    blob = directory + hashes
    return code + struct.pack(">IIIII", 0xFADE0CC0, 20 + len(blob), 1, 0, 20) + blob


CODE = bytes(range(256)) * 40


def test_an_intact_signature_has_no_faults():
    assert list(signature_faults(signed(CODE), len(CODE))) == []


def test_a_changed_page_is_named():
    content = bytearray(signed(CODE))
    content[PAGE + 5] ^= 1
    assert list(signature_faults(bytes(content), len(CODE))) == ["is not what was signed: page 1 differs"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (signed(CODE, flags=0), "is signed by somebody, not ad hoc"),
        (signed(CODE, kind=1), "has a code directory of an unknown kind"),
        (signed(CODE, limit=PAGE), "has a signature of 4096 bytes in 3 pages, and 10240 bytes before it"),
        (CODE + b"\0" * 64, "has a signature without a code directory"),
        (CODE, "has a signature that is cut off"),
    ],
)
def test_each_fault_is_said(content, fault):
    assert list(signature_faults(content, len(CODE))) == [fault]


@pytest.mark.parametrize("start", [MAGIC, b"\xca\xfe\xba\xbe"])
def test_a_macho_file_is_known_by_its_start(start):
    assert is_macho(start + b"rest")
    assert not is_macho(b"\x7fELF")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\xca\xfe\xba\xbe" + bytes(60), MAGIC + b"cut off"])
def test_what_is_no_file_for_one_machine_is_refused(content):
    with pytest.raises(ValueError, match="Mach-O file"):
        read_macho(content)
