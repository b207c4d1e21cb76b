"""Our patches on upstream's real sources: each applies to every pinned release that it is for, on every target.

Those for oneDNN are applied to the fallback, which can be fetched without git; what they change is run emulated.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.patch_series import Patch, load_series
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store, default_root
from cpuwheels.source.onednn import OneDnn, get_onednn, onednn_pins, patch_onednn
from cpuwheels.source.patches import apply_series, fixed_faults, read_hunks
from cpuwheels.source.request import request_source
from cpuwheels.toolchain.select import resolve_toolchain
from cpuwheels.verification.emulation.qemu import find_emulator
from layout import ROOT
from loopback import DEAD

HERE = Path(__file__).parent / "onednn"
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
    applied = apply_series(series, FOLDER, tmp_path, title=f"vLLM {version}")
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


@pytest.fixture(scope="module")
def onednn(tmp_path_factory: pytest.TempPathFactory) -> OneDnn:
    """The fallback's sources, unpatched: no git remote can be reached."""
    tag, pin = next(iter(onednn_pins(MATRIX.onednn, "s390x").items()))
    context = build_context(tmp_path_factory.mktemp("onednn"), "s390x", store=Store(default_root()))
    return get_onednn(context, tag, pin.model_copy(update={"repositories": (DEAD,)}), environ={})


def test_onednn_is_patched_where_its_patches_are_for(onednn: OneDnn, tmp_path: Path) -> None:
    assert (onednn.kind, onednn.release) == ("alternate", onednn.version)
    for target in MATRIX.targets:
        context = build_context(tmp_path, target, store=Store(default_root()))
        patched = patch_onednn(context, onednn, released=True)
        fixes = {fault for patch in SERIES.patches if is_onednns(patch, target.id) for fault in patch.fixes}
        assert fixed_faults(patched.patches) == fixes
        assert {patch.state for patch in patched.patches} == ({"applied"} if fixes else set())
        assert (patched.key == onednn.key) is (not fixes)
        bare = patch_onednn(replace(context, options=BuildOptions(upstream_kernels=True)), onednn, released=True)
        assert fixed_faults(bare.patches) == set()


def is_onednns(patch: Patch, target: str) -> bool:
    return patch.source == "onednn" and (not patch.targets or target in patch.targets)


def test_an_onednn_that_is_patched_already_is_recognised(onednn: OneDnn, tmp_path: Path) -> None:
    context = build_context(tmp_path, "s390x", store=Store(default_root()))
    patched = patch_onednn(context, onednn, released=True)
    again = patch_onednn(context, replace(patched, digest="of the patched one"), released=True)
    assert {patch.state for patch in again.patches} == {"upstream"}


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the cross compiler runs on x86-64")
def test_conversions_of_bfloat16_are_right_on_a_big_endian_machine(onednn: OneDnn, tmp_path: Path) -> None:
    context = build_context(
        tmp_path,
        "s390x",
        options=BuildOptions(toolchain="debian"),
        store=Store(default_root()),
        reporter=Reporter("s390x"),
    )
    toolchain, emulator = resolve_toolchain(context), find_emulator(context, "s390x")

    def wrong(folder: Path) -> list[int]:
        program, includes = tmp_path / "bfloat16", [f"-I{HERE}", f"-I{folder / 'src'}"]
        sources = [HERE / "bfloat16.cpp", folder / "src" / "common" / "bfloat16.cpp"]
        command = [toolchain.cxx, *toolchain.compile_flags, "-std=c++17", "-O2", "-static", *includes]
        subprocess.run([*command, *sources, "-o", program], check=True)
        done = subprocess.run([emulator, "-cpu", "max", program], check=True, capture_output=True, text=True)
        return [int(number) for number in done.stdout.split()]

    assert min(wrong(onednn.folder)) > 60_000, "this machine does not show the fault"
    assert wrong(patch_onednn(context, onednn, released=True).folder) == [0, 0]


def test_each_patch_is_for_a_pinned_release(onednn: OneDnn) -> None:
    """Pinned of oneDNN are what vLLM asks for, by a tag or a commit, and what is built where that is out of reach."""
    targets = [target.id for target in MATRIX.targets]
    of_onednn = [onednn.release, *(tag.removeprefix("v") for tag in MATRIX.onednn if tag.startswith("v"))]
    for patch in SERIES.patches:
        versions = of_onednn if patch.source == "onednn" else RELEASES
        assert any(patch.is_for(version, target, patch.source) for version in versions for target in targets), (
            patch.file
        )
