from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpuwheels.core.units import format_size, parse_size

G = 1 << 30


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8G", 8 * G),
        ("8g", 8 * G),
        ("8GB", 8 * G),
        ("8GiB", 8 * G),
        (" 8 gib ", 8 * G),
        ("7.5G", 15 * G // 2),
        ("512M", 512 << 20),
        ("4K", 4096),
        ("1T", 1 << 40),
        ("4096", 4096),
        (4096, 4096),
        ("1B", 1),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "G", "8X", "8GG", "-8G", "8,5G", "1e9", "0", "0G", "0.1", "eight", "8 8", "nan", "inf", ".5G", "5.G"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1000 * 1024, "1000 KiB"),
        ((1 << 20) - 1, "1 MiB"),
        (1 << 20, "1 MiB"),
        (4187593113, "3.9 GiB"),
        (1010 * G, "1010 GiB"),
        (1 << 40, "1 TiB"),
        (5000 * (1 << 40), "5000 TiB"),
    ],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(1, 1 << 53))
def test_what_is_shown_can_be_given(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.006)


@given(st.integers(1, 10**400), st.sampled_from(["", "K", "M", "G", "T"]))
def test_whole_numbers_are_exact_however_large(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]
