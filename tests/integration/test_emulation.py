"""A CPU without AVX-512, emulated: what it executes, and how a case ends that wants more."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import ParityError
from cpuwheels.toolchain.helper_toolchain import native_helpers
from cpuwheels.toolchain.native_helpers import CpuFeatures
from cpuwheels.verification.emulation.qemu import find_emulator
from cpuwheels.verification.parity.suite import Suite
from extension import compile_extension, python_path
from layout import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Library
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.toolchain.result import Toolchain
    from cpuwheels.verification.parity.results import LibraryResult

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "emulation"
NEEDED = ("avx2", "fma", "f16c")
NEWER = ("avx512f", "avx512vl", "avx512_vnni", "avx512_bf16", "avx_vnni", "gfni", "amx_tile")
OPERATORS = ("is_onednn_acl_supported", "static_scaled_fp8_quant", "dynamic_scaled_fp8_quant")
ILLEGAL = "the process was killed by SIGILL"


@pytest.fixture(scope="module")
def tried(this: BuildContext) -> Library:
    """The library that is tried on an emulated CPU."""
    (library,) = (library for library in this.target.libraries if library.emulated)
    return library


@pytest.fixture(scope="module")
def emulated(this: BuildContext, tried: Library) -> list[str | Path]:
    """What starts a program on the emulated CPU."""
    program = find_emulator(this, this.target.machine)
    return [program, "-cpu", str(tried.emulated)]


@pytest.fixture(scope="module")
def features(this: BuildContext, toolchain: Toolchain) -> Callable[..., frozenset[str]]:
    isaprobe = native_helpers(this, toolchain).isaprobe

    def features(*start: str | Path) -> frozenset[str]:
        done = subprocess.run([*start, isaprobe], check=True, capture_output=True)
        return CpuFeatures.model_validate_json(done.stdout).features

    return features


@pytest.fixture(scope="module")
def instruction(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("emulation") / "instruction"
    flags = [*toolchain.compile_flags, *toolchain.link_flags]
    subprocess.run([toolchain.cc, *flags, HERE / "instruction.c", "-o", program], check=True)
    return program


def test_the_emulated_cpu_has_what_the_library_needs_and_nothing_newer(
    features: Callable[..., frozenset[str]], emulated: list[str | Path], tried: Library
) -> None:
    found = features(*emulated)
    assert {*NEEDED, *tried.needs} <= found
    assert not [name for name in found if name.startswith(("avx512", "avx_", "avx10", "amx"))]


@pytest.mark.parametrize("name", [*NEEDED, *NEWER])
def test_an_instruction_is_executed_if_the_cpu_has_it(
    instruction: Path, features: Callable[..., frozenset[str]], emulated: list[str | Path], name: str
) -> None:
    assert subprocess.run([*emulated, instruction, name], check=False).returncode == (0 if name in NEEDED else -4)
    assert subprocess.run([instruction, name], check=False).returncode == (0 if name in features() else -4)


@pytest.fixture(scope="module")
def verdicts(
    environment: Environment, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., dict[str, tuple[str, tuple[str, ...]]]]:
    library = compile_extension(
        environment, toolchain, HERE / "operators.cpp", tmp_path_factory.mktemp("operators") / "_C_AVX2.abi3.so"
    )

    def verdicts(*start: str | Path) -> dict[str, tuple[str, tuple[str, ...]]]:
        python = ["/usr/bin/env", f"PYTHONPATH={python_path(environment)}", *start, environment.python]
        work = tmp_path_factory.mktemp("work")
        suite = Suite(python, ROOT / "tests" / "parity", work, work / "logs", "smoke", 1)
        result: LibraryResult = suite.run("_C_AVX2", library, lambda count, case: None)  # noqa: ARG005
        assert result.operators == tuple(sorted(OPERATORS))
        assert list(Path.cwd().glob("qemu_*.core")) == []
        return {case.name: (case.verdict, case.problems) for case in result.cases}

    return verdicts


def test_an_operator_that_needs_a_newer_cpu_is_named(
    verdicts: Callable[..., dict[str, tuple[str, tuple[str, ...]]]], emulated: list[str | Path]
) -> None:
    known, newer, without = OPERATORS
    assert verdicts(*emulated) == {known: ("passed", ()), newer: ("crashed", (ILLEGAL,)), without: ("passed", ())}


def test_the_same_operator_is_right_where_the_cpu_has_the_instruction(
    verdicts: Callable[..., dict[str, tuple[str, tuple[str, ...]]]], features: Callable[..., frozenset[str]]
) -> None:
    known, newer, without = OPERATORS
    right = ("passed", ()) if "avx512f" in features() else ("crashed", (ILLEGAL,))
    assert verdicts() == {known: ("passed", ()), newer: right, without: ("passed", ())}


def test_a_library_that_cannot_even_be_loaded_is_an_error_that_says_why(
    environment: Environment, toolchain: Toolchain, emulated: list[str | Path], tmp_path: Path
) -> None:
    source = tmp_path / "loaded.cpp"
    source.write_text('__attribute__((constructor)) void load() { asm volatile("vpaddd %zmm0, %zmm0, %zmm0"); }\n')
    library = compile_extension(environment, toolchain, source, tmp_path / "_C_AVX2.abi3.so")
    python = ["/usr/bin/env", f"PYTHONPATH={python_path(environment)}", *emulated, environment.python]
    suite = Suite(python, ROOT / "tests" / "parity", tmp_path, tmp_path / "logs", "smoke", 1)
    with pytest.raises(ParityError, match=f"_C_AVX2: {ILLEGAL}"):
        suite.run("_C_AVX2", library, lambda count, case: None)  # noqa: ARG005
