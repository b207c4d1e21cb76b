"""The result of a second build: what it claims, and what it says of wheels that differ."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from cpuwheels.core.errors import ReproducibilityError
from cpuwheels.verification.reproducibility import Difference
from cpuwheels.verification.verified import Verified, differing, require_reproduced
from sample_results import verified


def shown(found: Verified) -> list[list[str]]:
    stream = io.StringIO()
    found.as_table().print(Console(file=stream, width=100))
    return [line.split() for line in stream.getvalue().splitlines()]


def test_the_same_bytes() -> None:
    found = verified()
    assert found.reproduced
    assert found.as_sentence() == f"two builds, the same bytes: sha256 {'0' * 64}"
    require_reproduced(found, Path("verify.json"))
    assert Verified.model_validate_json(found.as_text()) == found


def test_what_was_not_varied_is_in_the_table_with_its_reason() -> None:
    lines = shown(verified(not_varied={"cpus": "there is [one] CPU"}))
    assert ["umask", "yes", "022", "→", "077"] in lines
    assert ["cpus", "not", "varied", "there", "is", "[one]", "CPU"] in lines


def test_one_axis_alone_is_to_blame() -> None:
    found = verified("a.py", varied={"umask": "022 → 077"})
    with pytest.raises(ReproducibilityError) as raised:
        require_reproduced(found, Path("verify.json"))
    error = raised.value
    assert error.what == (
        "two builds that differ in umask alone give wheels that differ in 1 place, first: a.py: content: first "
        "differing byte at 1"
    )
    assert error.next_step == "find how umask gets into that file"


def test_of_several_axes_none_is_blamed() -> None:
    with pytest.raises(ReproducibilityError) as raised:
        require_reproduced(verified("a.py", "b.py"), Path("verify.json"))
    assert "differ in umask, hostname give wheels that differ in 2 places" in raised.value.what
    assert "b.py: content" in str(raised.value.output)
    assert "--vary" in str(raised.value.next_step)


def test_of_many_differences_the_first_are_kept() -> None:
    found = differing(Difference(f"{number}{'x' * 999}", "content", "y" * 999) for number in range(999))
    assert len(found) == 200
    assert {len(one.member) for one in found} == {len(one.detail) for one in found} == {400}
