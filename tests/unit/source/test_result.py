"""The time of a source, which ``SOURCE_DATE_EPOCH`` may name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.core.errors import UsageError
from cpuwheels.source.result import Source, with_epoch

SOURCE = Source("0.32.0", Path("/source"), "digest", 1_700_000_000, "here", "PKG-INFO")


@pytest.mark.parametrize("environ", [{}, {"SOURCE_DATE_EPOCH": ""}, {"SOURCE_DATE_EPOCH": " "}])
def test_a_source_has_its_own_time(environ: dict[str, str]) -> None:
    assert with_epoch(SOURCE, environ) == SOURCE


def test_the_variable_names_another() -> None:
    assert with_epoch(SOURCE, {"SOURCE_DATE_EPOCH": " 7 "}) == replace(SOURCE, epoch=7)


@pytest.mark.parametrize("text", ["-1", "1.5", "today", "²"])
def test_what_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a whole number of seconds"):
        with_epoch(SOURCE, {"SOURCE_DATE_EPOCH": text})
