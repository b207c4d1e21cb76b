"""Operators that are asked for by name: refused before anything is installed, with those like them."""

from __future__ import annotations

import zipfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from cpuwheels.core.errors import UsageError
from cpuwheels.verification.parity.operator_filter import require_in_libraries, require_operators

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = (
    b"\0rms_norm(Tensor! result, Tensor input, float epsilon) -> ()\0"
    b"silu_and_mul(Tensor! result, Tensor input) -> ()\0"
    b"get_scheduler_metadata(int num_req, Tensor(a) -> x) -> Tensor\0inferred\0"
)


def wheel(path: Path, **libraries: bytes) -> Any:
    """Return a wheel with these libraries."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in libraries.items():
            archive.writestr(f"vllm/{name}.abi3.so", content)
    return SimpleNamespace(path=path, libraries={name: f"vllm/{name}.abi3.so" for name in libraries})


@pytest.mark.parametrize("asked", [[], ["rms_norm"], ["silu_and_mul", "rms_norm"], ["inferred"], ["other"]])
def test_what_a_library_has_is_taken(tmp_path: Path, asked: list[str]) -> None:
    require_in_libraries(asked, [wheel(tmp_path / "a.whl", _C=SCHEMAS, _D=b"\0other\0")], "the wheel")


def test_what_no_library_has_is_refused_with_those_like_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no library of the wheel has rms_nrom") as raised:
        require_in_libraries(
            ["rms_norm", "rms_nrom"], [wheel(tmp_path / "a.whl", _C=SCHEMAS)], "no library of the wheel"
        )
    assert (raised.value.where, raised.value.next_step) == ("--operator", "did you mean rms_norm?")


def test_one_of_two_wheels_is_enough(tmp_path: Path) -> None:
    wheels = [wheel(tmp_path / "a.whl", _C=b"\0old_norm\0"), wheel(tmp_path / "b.whl", _C=SCHEMAS)]
    require_in_libraries(["old_norm", "rms_norm"], wheels, "neither wheel")
    with pytest.raises(UsageError, match="neither wheel has new_norm"):
        require_in_libraries(["new_norm"], wheels, "neither wheel")


def test_without_one_alike_all_are_named() -> None:
    with pytest.raises(UsageError) as raised:
        require_operators(["x"], ["b", "a"], "nobody")
    assert raised.value.next_step == "choose from a, b"


def test_where_none_is_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the wheel has x") as raised:
        require_in_libraries(["x"], [wheel(tmp_path / "a.whl", _C=b"")], "the wheel")
    assert "parity.json" in raised.value.next_step
