"""Our patches on upstream's real sources: each applies to every pinned release that it is for, on every target."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.patch_series import Patch, load_series
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store, default_root
from cpuwheels.source.patches import apply_series, fixed_faults, read_hunks
from cpuwheels.source.request import request_source
from layout import ROOT

MATRIX, SERIES, FOLDER = load_matrix(ROOT), load_series(ROOT), ROOT / "patches"
RELEASES = [pin.version for pin in MATRIX.releases]


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """The sources of a pinned release, unpatched."""
    source = request_source(request.param, None, MATRIX).get(Store(default_root()), Reporter("tests"))
    assert source.released
    return source.version, source.folder


@pytest.mark.parametrize("target", [target.id for target in MATRIX.targets])
@pytest.mark.parametrize("kernels", ["patched", "upstream's"])
def test_the_series_applies(release: tuple[str, Path], target: str, kernels: str, tmp_path: Path) -> None:
    version, folder = release
    series = SERIES.chosen(version, target, with_fixes=kernels == "patched")
    copied(series, folder, tmp_path)
    applied = apply_series(series, FOLDER, tmp_path)
    assert {each.state for each in applied} <= {"applied", "upstream", "not needed"}
    assert fixed_faults(applied) == {fault for patch in series for fault in patch.fixes}
    assert bool(fixed_faults(applied)) is (kernels == "patched")


def test_the_library_for_avx2_has_every_operator_of_the_one_for_avx512(
    release: tuple[str, Path], tmp_path: Path
) -> None:
    version, folder = release
    series = SERIES.chosen(version, "x86", with_fixes=True)
    copied(series, folder, tmp_path)
    apply_series(series, FOLDER, tmp_path)
    listed = (tmp_path / "cmake" / "cpu_extension.cmake").read_text(encoding="utf-8")
    files = {
        library: set(
            re.findall(r'"(csrc/[^"]+)"', listed.partition(f"set(VLLM_EXT_SRC_{library}\n")[2].partition(")")[0])
        )
        for library in ("AVX512", "AVX2")
    }
    assert "csrc/cpu/cpu_wna16.cpp" in files["AVX512"]
    assert files["AVX2"] == files["AVX512"]
    registered = (tmp_path / "csrc" / "cpu" / "torch_bindings.cpp").read_text(encoding="utf-8").replace("\\\n", "")
    conditions = [each for each in re.findall(r"^#if (.*)", registered, re.MULTILINE) if "__AVX512F__" in each]
    plain = [each for each in conditions if "__AVX512BF16__" not in each]
    assert len(plain) >= 3
    assert [each for each in plain if "__AVX2__" not in each] == []


def copied(series: tuple[Patch, ...], source: Path, tree: Path) -> None:
    """Copy the files that patches change, or look at."""
    names = {hunk.path for patch in series for hunk in read_hunks(FOLDER / patch.file)}
    names |= {patch.only_if_lacks.file for patch in series if patch.only_if_lacks}
    for name in filter(lambda name: (source / name).is_file(), names):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, tree / name)
        (tree / name).chmod(0o644)


def test_each_patch_is_for_a_pinned_release() -> None:
    targets = [target.id for target in MATRIX.targets]
    for patch in SERIES.patches:
        assert any(patch.is_for(version, target) for version in RELEASES for target in targets), patch.file
