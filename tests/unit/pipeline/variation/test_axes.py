"""The axes as data: what a user may name, and what is shown of each."""

from __future__ import annotations

import re

import pytest

from cpuwheels.core.errors import UsageError
from cpuwheels.pipeline.variation.axes import AXES, BY_NAME, DEFAULT, NOISE, axes_of, chosen_axes
from layout import ROOT


def names(text: str | None) -> list[str]:
    return [axis.name for axis in chosen_axes(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("umask", ["umask"]),
        ("umask,time", ["time", "umask"]),
        (" umask , umask", ["umask"]),
        ("all", [axis.name for axis in AXES]),
        (None, [axis.name for axis in AXES if axis.name in DEFAULT]),
    ],
)
def test_axes_are_in_the_order_in_which_they_are_applied(text: str | None, found: list[str]) -> None:
    assert names(text) == found


@pytest.mark.parametrize("text", ["", ",", "umsak", "umask,umsak"])
def test_another_name_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        chosen_axes(text)
    assert ("umsak" in raised.value.what) == ("umsak" in text)
    assert raised.value.where == "--vary"
    assert all(name in str(raised.value.next_step) for name in BY_NAME)


def test_who_named_it_is_told() -> None:
    with pytest.raises(UsageError) as raised:
        axes_of(["x"], "matrix.yaml: nightly.verify")
    assert raised.value.where == "matrix.yaml: nightly.verify"


def test_names_are_short_and_unique() -> None:
    assert len(BY_NAME) == len(AXES)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in BY_NAME)
    assert all(axis.about and "\n" not in axis.about and len(axis.about) < 100 for axis in AXES)
    assert set(DEFAULT) < set(BY_NAME)


def test_the_documentation_lists_them_as_they_are() -> None:
    page = (ROOT / "docs" / "reproducibility.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \|$", page, re.MULTILINE)
    assert rows == [(axis.name, axis.about) for axis in AXES]
    assert f"without `--vary`: {', '.join(f'`{name}`' for name in DEFAULT)}" in page.replace("\n", " ")


def test_the_noise_is_nothing_that_a_build_is_told_by() -> None:
    """What the documentation names as a setting may make a difference."""
    mirrors = (ROOT / "docs" / "mirrors.md").read_text(encoding="utf-8")
    table = mirrors[mirrors.index("## Environment variables") :]
    settings = set(re.findall(r"`([A-Za-z_]+)`", table[: table.index("## Python tools")]))
    assert {"CC", "MAX_JOBS", "HOME"} < settings
    assert not settings & set(NOISE)
