from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.elf import MAGIC
from cpuwheels.core.errors import UsageError
from cpuwheels.verification.serve_bench.preload import find_library


@pytest.fixture
def environments(tmp_path: Path) -> list[Path]:
    for name in ("one/lib/libiomp5.so", "two/lib/libiomp5.so", "two/lib/python3.11/libtcmalloc.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(MAGIC)
    (tmp_path / "one" / "libtcmalloc.so").write_text("GROUP ( libtcmalloc.so.4 )")
    return [tmp_path / "one", tmp_path / "two"]


def test_the_first_environment_that_has_a_name_counts(environments: list[Path]) -> None:
    assert find_library("libiomp5.so", environments, "--against-preload") == environments[0] / "lib/libiomp5.so"
    assert find_library("libiomp5.so", environments[::-1], "") == environments[1] / "lib/libiomp5.so"
    assert find_library("libtcmalloc.so", environments, "") == environments[1] / "lib/python3.11/libtcmalloc.so"


def test_the_systems_libraries_come_last(environments: list[Path]) -> None:
    assert find_library("libc.so.6", environments, "").name == "libc.so.6"
    (environments[1] / "libc.so.6").write_bytes(MAGIC)
    assert find_library("libc.so.6", environments, "") == environments[1] / "libc.so.6"


def test_a_path_is_taken_as_it_is(environments: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(environments[0])
    assert find_library("lib/libiomp5.so", [], "") == environments[0] / "lib/libiomp5.so"
    with pytest.raises(UsageError, match=r"\./libtcmalloc\.so is not a shared library"):
        find_library("./libtcmalloc.so", [], "")
    with pytest.raises(UsageError, match=r"nor this system have libnothing\.so") as raised:
        find_library("libnothing.so", environments, "--wheel-preload")
    assert raised.value.where == "--wheel-preload"
