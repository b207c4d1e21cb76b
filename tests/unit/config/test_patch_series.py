from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest

from cpuwheels.config.patch_series import SourceName, load_series
from cpuwheels.core.errors import MatrixError

if TYPE_CHECKING:
    from pathlib import Path

SOURCES: tuple[SourceName, ...] = get_args(SourceName)
GOOD = {"file": "0001-a.patch", "versions": "'>=0.28,<0.33'", "why": "w", "upstream": "none"}


def write(root: Path, **changes: str) -> Path:
    rows = "\n    ".join(f"{name}: {value}" for name, value in (GOOD | changes).items())
    (root / "patches").mkdir()
    (root / "patches" / "series.yaml").write_text(f"patches:\n  - {rows}\n")
    return root


@pytest.mark.parametrize(
    ("versions", "version", "belongs"),
    [
        ("'>=0.28,<0.33'", "0.28.0", True),
        ("'>=0.28,<0.33'", "0.27.1", False),
        ("'>=0.28,<0.33'", "0.33.0", False),
        ("'>=0.28,<0.33'", "0.33.0rc1", False),
        ("'>=0.28,<0.33'", "0.32.1.dev7+gabc.dirty", True),
        ("'>=0.33'", "0.33.0.dev3", True),
        ("'==0.32.*'", "0.32.5.post1", True),
        ("''", "0.1", True),
    ],
)
def test_ranges(tmp_path: Path, versions: str, version: str, belongs: bool) -> None:
    (patch,) = load_series(write(tmp_path, versions=versions)).patches
    assert patch.is_for(version, "x86") is belongs


def test_targets(tmp_path: Path) -> None:
    (patch,) = load_series(write(tmp_path, targets="[s390x, arm]")).patches
    assert [patch.is_for("0.30.0", target) for target in ("s390x", "arm", "x86")] == [True, True, False]


@pytest.mark.parametrize(
    ("changes", "own"), [({}, "vllm"), ({"source": "vllm"}, "vllm"), ({"source": "onednn"}, "onednn")]
)
def test_a_patch_is_for_one_source(tmp_path: Path, changes: dict[str, str], own: SourceName) -> None:
    series = load_series(write(tmp_path, versions="'>=3'", targets="[s390x]", fixes="[A fault]", **changes))
    for source in SOURCES:
        there = source == own
        assert len(series.chosen("3.7.2", "s390x", with_fixes=True, source=source)) == there
        assert series.changes(source, "s390x") is there
        assert series.chosen("3.7.2", "s390x", with_fixes=False, source=source) == ()
        assert series.chosen("2.9", "s390x", with_fixes=True, source=source) == ()
        assert series.chosen("3.7.2", "x86", with_fixes=True, source=source) == ()
        assert not series.changes(source, "x86")
    assert len(series.chosen("3.7.2", "s390x", with_fixes=True)) == (own == "vllm")


@pytest.mark.parametrize(
    ("with_fixes", "with_speed", "there"), [(True, True, 1), (True, False, 0), (False, True, 0), (False, False, 0)]
)
def test_what_is_for_speed_has_a_switch_of_its_own(
    tmp_path: Path, *, with_fixes: bool, with_speed: bool, there: int
) -> None:
    """Lines that it changes may be those of a patch that fixes a fault, so it is never without those."""
    series = load_series(write(tmp_path, speeds="[rms_norm]"))
    assert len(series.chosen("0.30.0", "x86", with_fixes=with_fixes, with_speed=with_speed)) == there


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"versions": "0.28"}, "Input should be a valid string"),
        ({"versions": "'0.28'"}, "is not a version range such as '>=0.28,<0.33'"),
        ({"file": "a.patch"}, "String should match pattern"),
        ({"file": "../0001-a.patch"}, "String should match pattern"),
        ({"version": "'>=1'"}, "did you mean 'versions'?"),
        ({"why": ""}, "Input should be a valid string"),
        ({"source": "onednm"}, "Input should be 'vllm' or 'onednn'"),
    ],
)
def test_faults(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(MatrixError) as raised:
        load_series(write(tmp_path, **changes))
    assert message in raised.value.what
    assert "series.yaml:" in raised.value.where


def test_no_series_at_all_is_told(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match=r"cannot read series\.yaml"):
        load_series(tmp_path)
