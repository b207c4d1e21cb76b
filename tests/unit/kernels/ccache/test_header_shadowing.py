"""Added files that an #include could find first must change the digest; others must not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.kernels.ccache.header_shadowing import shadows_digest

if TYPE_CHECKING:
    from pathlib import Path


def write(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.fixture
def changing(tmp_path: Path) -> Path:
    return write(tmp_path / "csrc", "cpu/ops.cpp", "cpu/ops.hpp", "cpu/utils.hpp", "core/scalar.h")


@pytest.fixture
def fixed(tmp_path: Path) -> Path:
    return write(tmp_path / "include", "torch/all.h", "torch/types.h", "vector")


@pytest.mark.parametrize(
    ("added", "counts"),
    [
        ("cpu/new.hpp", False),
        ("cpu/all.hpp", False),
        ("moe/kernel.cu", False),
        ("cpu/torch/all.h", True),
        ("all.h", True),
        ("cpu/vector", True),
        ("moe/utils.hpp", True),
        ("cpu/ops.cpp", False),
        ("moe/ops.cu", False),
        ("moe/all.h.md", False),
    ],
)
def test_added_files(changing: Path, fixed: Path, added: str, counts: bool) -> None:
    before = shadows_digest(changing, [fixed])
    write(changing, added)
    assert (shadows_digest(changing, [fixed]) != before) is counts


def test_where_such_a_file_lies_counts(changing: Path, fixed: Path) -> None:
    write(changing, "cpu/all.h")
    before = shadows_digest(changing, [fixed])
    (changing / "cpu" / "all.h").rename(changing / "all.h")
    assert shadows_digest(changing, [fixed]) != before


def test_content_and_place_of_the_folders_do_not_count(changing: Path, fixed: Path, tmp_path: Path) -> None:
    write(changing, "cpu/all.h")
    before = shadows_digest(changing, [fixed])
    (changing / "cpu" / "all.h").write_text("other")
    changing.rename(tmp_path / "elsewhere")
    assert shadows_digest(tmp_path / "elsewhere", [fixed]) == before
