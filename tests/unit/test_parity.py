from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from toolchain.fake_compiler import TARGET
from torch_wheels import write_wheel

from cpuwheels.errors import EnvironmentError_, ParityError, WheelError
from cpuwheels.model.matrix import Library
from cpuwheels.parity import run_parity, wheel_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.console import Reporter

X86 = {"platform_machine": "x86_64", "platform_system": "Linux", "sys_platform": "linux"}
TWO = TARGET.model_copy(
    update={
        "libraries": (
            Library(name="_C", isa=("avx512f",), needs=("avx512f", "amx_tile")),
            Library(name="_C_AVX2", isa=("avx2",), needs=("avx2",)),
        )
    }
)


@pytest.mark.parametrize(
    ("needs", "torch"),
    [
        (["torch==2.13.0"], "2.13.0"),
        (["torch==2.13.0+cpu"], "2.13.0"),
        (
            ["numpy", 'torch==2.12.0; platform_machine == "s390x"', 'torch==2.13.0; platform_machine == "x86_64"'],
            "2.13.0",
        ),
        (['torch==2.1.0; extra == "old"', "torch==2.13.0"], "2.13.0"),
    ],
)
def test_a_wheel_names_its_torch(tmp_path: Path, needs: list[str], torch: str) -> None:
    assert wheel_torch(write_wheel(tmp_path, "vllm", "1.0", {}, *needs), X86) == torch


@pytest.mark.parametrize(
    "needs", [[], ["torch"], ["torch>=2.13"], ['torch==2.13.0; platform_machine == "s390x"'], ["torch==2.*"]]
)
def test_a_wheel_without_one_torch_is_told(tmp_path: Path, needs: list[str]) -> None:
    with pytest.raises(WheelError, match="does not require one version of torch"):
        wheel_torch(write_wheel(tmp_path, "vllm", "1.0", {}, *needs), X86)


def _nothing(_: Path) -> None:
    pass


def _text(path: Path) -> None:
    path.write_text("no zip")


def _empty_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w"):
        pass


@pytest.mark.parametrize("write", [_nothing, _text, _empty_zip, Path.mkdir])
def test_what_is_no_wheel_is_told(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path / "a.whl")
    with pytest.raises(WheelError, match=r"a\.whl is not a wheel") as raised:
        wheel_torch(tmp_path / "a.whl", X86)
    assert raised.value.next_step


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An environment with two libraries, whose Python fails the tests of those named in the file wrong."""
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "vllm"
    site.mkdir(parents=True)
    for name in ("_C", "_C_AVX2"):
        (site / f"{name}.abi3.so").write_text("")
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir()
    python.write_text(
        '#!/bin/sh\nif [ "$1" = -c ]; then echo 3.11; exit; fi\n'
        f'echo "$CPUWHEELS_LIBRARY $*" >> {tmp_path}/ran\n'
        f'name=$(basename "$CPUWHEELS_LIBRARY" .abi3.so)\n'
        f'if grep -qx "$name" {tmp_path}/wrong 2>/dev/null; then echo "rms_norm is off"; echo "1 failed"; exit 1; fi\n'
        'echo "9 passed"\n'
    )
    python.chmod(0o755)
    return python


@pytest.fixture
def check(
    tmp_path: Path, python: Path, reporter: Reporter, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    uv = tmp_path / "uv"
    uv.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\nif [ -e {tmp_path}/broken ]; then echo "error: no"; exit 2; fi\n'
    )
    uv.chmod(0o755)
    monkeypatch.setattr("cpuwheels.parity.find_uv_bin", lambda: str(uv))

    def run(*features: str) -> None:
        run_parity(
            tmp_path / "vllm.whl", TWO, python=python, lock=tmp_path / "parity.txt", tests=tmp_path / "tests",
            features=features, reporter=reporter, logs=logs,
        )  # fmt: skip

    return run


def ran(tmp_path: Path) -> list[str]:
    lines = (tmp_path / "ran").read_text().splitlines() if (tmp_path / "ran").exists() else []
    return [Path(line.split()[0]).name for line in lines]


def test_each_library_is_tested_in_a_process_of_its_own(tmp_path: Path, check, story: io.StringIO) -> None:
    check("avx2", "avx512f", "amx_tile")
    assert ran(tmp_path) == ["_C.abi3.so", "_C_AVX2.abi3.so"]
    assert "_C: 9 passed" in story.getvalue()
    assert "--no-deps" in (tmp_path / "asked").read_text().splitlines()[-1]


def test_what_this_cpu_cannot_run_is_said(tmp_path: Path, check, reporter: Reporter) -> None:
    check("avx2", "avx512f")
    assert ran(tmp_path) == ["_C_AVX2.abi3.so"]
    assert reporter.announcements == ["_C was not run: this CPU lacks amx_tile"]


def test_a_check_of_nothing_is_no_success(tmp_path: Path, check) -> None:
    with pytest.raises(ParityError, match="no library") as raised:
        check()
    assert ran(tmp_path) == []
    assert "avx2" in raised.value.next_step


def test_wrong_results_are_told_after_all_libraries_ran(tmp_path: Path, check) -> None:
    (tmp_path / "wrong").write_text("_C\n")
    with pytest.raises(ParityError, match="kernels of _C do not agree") as raised:
        check("avx2", "avx512f", "amx_tile")
    assert ran(tmp_path) == ["_C.abi3.so", "_C_AVX2.abi3.so"]
    assert "rms_norm is off" in raised.value.output
    assert raised.value.log is not None
    assert "parity-_C.log" in str(raised.value.log)


def test_a_missing_library_is_told(python: Path, check) -> None:
    (python.parent.parent / "lib" / "python3.11" / "site-packages" / "vllm" / "_C_AVX2.abi3.so").unlink()
    with pytest.raises(WheelError, match=r"has no vllm/_C_AVX2\.abi3\.so"):
        check("avx2")


def test_a_wheel_that_cannot_be_installed_is_told(tmp_path: Path, check) -> None:
    (tmp_path / "broken").write_text("")
    with pytest.raises(EnvironmentError_, match="cannot be installed") as raised:
        check("avx2")
    assert "error: no" in raised.value.output
