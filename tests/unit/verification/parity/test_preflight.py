"""Torch's own products: that a process which dies of one is told apart from a wrong operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.errors import PreflightError
from cpuwheels.verification.parity.preflight import require_products


def python(folder: Path, script: str) -> Path:
    """A program that stands for an interpreter with torch."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_products_that_are_right_say_nothing(tmp_path: Path) -> None:
    require_products(
        python(tmp_path, 'test "$ONEDNN_MAX_CPU_ISA" = AVX2'), {"ONEDNN_MAX_CPU_ISA": "AVX2"}, tmp_path / "log"
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'torch: a product in bfloat16'; kill -ILL $$", "a product in bfloat16 was killed by SIGILL"),
        ("echo 'torch: a product in bfloat16'; echo 'torch: a product in int8'; exit 3", "a product in int8 is wrong"),
        ("exit 1", "its import ended with status 1"),
    ],
)
def test_a_death_or_a_wrong_product_is_an_error_of_its_own(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(PreflightError, match=words) as raised:
        require_products(python(tmp_path, script), {}, tmp_path / "log")
    assert raised.value.exit_code == 45
    assert "nox -s doctor" in str(raised.value)


def test_the_limit_that_did_not_help_is_named(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="with ONEDNN_MAX_CPU_ISA=AVX512_CORE"):
        require_products(python(tmp_path, "exit 1"), {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, tmp_path / "log")
