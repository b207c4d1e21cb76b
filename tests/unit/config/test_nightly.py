"""What the matrix says of nightly jobs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from cpuwheels.config.nightly import Nightly


def test_sizes_may_have_units() -> None:
    assert Nightly(keep_free="3G").keep_free == 3 << 30  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given", [{"attempts": 0}, {"keep_days": 0}, {"speed_rounds": -1}, {"parity": "none"}, {"x": 1}]
)
def test_a_job_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Nightly(**given)
    assert Nightly(speed_rounds=0, keep_days=1, attempts=1).parity == "full"
