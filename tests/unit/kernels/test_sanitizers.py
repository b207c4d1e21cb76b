"""The sanitizers' flags and run times, and what they are pinned with."""

from __future__ import annotations

from pathlib import Path

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.matrix import load_matrix
from cpuwheels.kernels.sanitizers import SANITIZERS
from layout import ROOT


def test_a_run_goes_on_after_what_it_finds() -> None:
    flags = SANITIZERS["address"].flags
    (kinds,) = (flag.partition("=")[2] for flag in flags if flag.startswith("-fsanitize="))
    assert f"-fsanitize-recover={kinds}" in flags


def test_the_run_times_are_those_that_debian_has_with_the_compiler() -> None:
    for target in load_matrix(ROOT / "matrix.yaml").targets:
        if target.sanitizers is None:
            continue
        runtimes = {package.name: package.version for package in load_lock(ROOT, target.sanitizers).packages}
        compiler = {package.name: package.version for package in load_lock(ROOT, str(target.toolchain)).packages}
        gcc = {name: version for name, version in runtimes.items() if "san" in name}
        # All libraries of GCC come from one source package there, the newest one's.
        assert set(gcc.values()) == {compiler["libgcc-s1"]}
        # OMP_TOOL_LIBRARIES names a file of this version. Without it the runtime goes on, and correct code has races.
        assert {"libomp5-19", "libomp-19-dev"} <= runtimes.keys()


def test_flags_and_steering_are_the_identity(tmp_path: Path) -> None:
    (tmp_path / "cmake").mkdir()
    steering = tmp_path / "cmake" / "sanitize.cmake"
    steering.write_text("one")
    before = SANITIZERS["address"].identity(tmp_path)
    assert before[:-1] == list(SANITIZERS["address"].flags)
    steering.write_text("other")
    assert SANITIZERS["address"].identity(tmp_path) != before
