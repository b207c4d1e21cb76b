"""Where a wheel for another machine is tried, and when that is refused."""

from __future__ import annotations

import io
import platform
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import fake_machine
from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.matrix import Target, load_matrix
from cpuwheels.config.options import ParityOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import TorchError, UsageError
from cpuwheels.pipeline import test_environment
from cpuwheels.pipeline.test_environment import hold_onednn_back, install_environment, parity_environment, this_cpu
from cpuwheels.toolchain.amx import Amx
from cpuwheels.toolchain.native_helpers import CpuFeatures, NativeTools
from cpuwheels.verification.parity.run import ParityEnvironment
from cpuwheels.wheel.kernel_wheel import KernelWheel
from layout import ROOT

WHEEL = KernelWheel(Path("vllm-1.0.whl"), "0" * 64, "1.0", "2.5.1", {"_C_NEWER": "vllm/_C_NEWER.abi3.so"})


def this(folder: Path, target: Target) -> BuildContext:
    """A run for a target."""
    return build_context(folder, target)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[ParityEnvironment, BuildContext]]:
    """The bench of a wheel, with a machine of small files."""
    machine = fake_machine.machine(tmp_path)
    # What uv asks of an interpreter is tried for real in the integration tests.
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    uv.chmod(0o755)
    monkeypatch.setattr("uv.find_uv_bin", lambda: uv)

    def bench(
        wheel: KernelWheel = WHEEL, *, kind: str = "other", torch: str = machine.torch_version, **options: object
    ) -> tuple[ParityEnvironment, BuildContext]:
        monkeypatch.setattr(test_environment, "emulated", lambda _: replace(machine, torch_version=torch))
        run = this(tmp_path, fake_machine.foreign(machine=kind))
        return parity_environment(run, wheel, ParityOptions(**options), tmp_path / "work"), run  # type: ignore[arg-type]

    return bench


def test_every_library_has_its_own_emulated_cpu(
    tmp_path: Path, bench: Callable[..., tuple[ParityEnvironment, BuildContext]]
) -> None:
    found, run = bench(level="smoke")
    assert [(trial.cpu.name, trial.level, trial.threads) for trial in found.trials] == [
        ("max,fast=on", "smoke", 1),
        ("old", "smoke", 1),
    ]
    assert not any(trial.once for trial in found.trials), "no other CPU shows whether bits are the same"
    assert found.machine == "other, emulated by QEMU (max,fast=on, old)"
    assert (found.torch, found.emulated, found.threads) == ("2.5.1+debian", True, 1)
    (install,) = (tmp_path / "asked").read_text().splitlines()  # the root has what the cases need
    assert install.startswith("pip install --offline --no-deps ")
    assert install.endswith(f" --python {tmp_path}/work/venv/bin/python vllm-1.0.whl")
    assert run.reporter.announcements == []


def test_the_threads_and_the_level_are_the_users(bench: Callable[..., tuple[ParityEnvironment, BuildContext]]) -> None:
    found, _ = bench(threads=2)
    assert {(trial.level, trial.threads) for trial in found.trials} == {("full", 2)}


def test_without_emulation_it_is_refused(bench: Callable[..., tuple[ParityEnvironment, BuildContext]]) -> None:
    with pytest.raises(UsageError, match="a wheel for other cannot be tested here without emulation"):
        bench(emulation=False)


def test_another_torch_than_the_wheels_is_refused(bench: Callable[..., tuple[ParityEnvironment, BuildContext]]) -> None:
    with pytest.raises(TorchError, match=r"has torch 2\.5\.1\+debian; vllm-1\.0\.whl requires 2\.14\.0"):
        bench(replace(WHEEL, torch="2.14.0"))


def test_only_the_fallback_of_the_matrix_replaces_the_wheels_torch(
    bench: Callable[..., tuple[ParityEnvironment, BuildContext]],
) -> None:
    kind = next(name for name in ("s390x", "aarch64") if name != platform.machine())
    wheel = replace(WHEEL, torch="2.14.0")
    fallback = load_matrix(ROOT).torch["2.14.0"].alternate(kind)
    assert fallback is not None
    found, run = bench(wheel, kind=kind, torch=f"{fallback.version}+debian")
    assert found.torch == f"{fallback.version}+debian"
    assert [note for note in run.reporter.announcements if "in place of the 2.14.0" in note]
    with pytest.raises(TorchError, match=r"has torch 2\.5\.1\+debian"):
        bench(wheel, kind=kind)


def test_a_target_without_a_root_is_not_installed_here(tmp_path: Path) -> None:
    run = this(tmp_path, fake_machine.foreign(root=None, system="Darwin"))
    assert install_environment(run, None, Path(sys.executable), tmp_path) is None  # type: ignore[arg-type]


def test_the_probe_is_compiled_only_if_none_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, made = this(tmp_path, fake_machine.foreign()), tmp_path / "isaprobe"
    here = CpuFeatures(architecture="x", vendor="", model="M", features=frozenset({"one"}), xcr0=None, amx=None)
    made.write_text(f"#!/bin/sh\necho '{here.model_dump_json()}'\n")
    made.chmod(0o755)
    asked: list[BuildContext] = []
    monkeypatch.setattr(
        test_environment, "native_helpers", lambda context: asked.append(context) or NativeTools(made, made)
    )
    monkeypatch.setattr(test_environment, "cpu_at_hand", lambda _: None)
    assert (this_cpu(run), asked) == (here, [run])
    monkeypatch.setattr(test_environment, "cpu_at_hand", lambda _: here)
    assert (this_cpu(run), asked) == (here, [run])


def test_onednn_is_held_back_aloud_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    reporter = Reporter("x86", Console(file=io.StringIO()))
    features = frozenset({"avx512f", "avx512bw", "avx512vl", "avx512dq", "amx_tile"})
    cpu = CpuFeatures(
        architecture="x86_64",
        vendor="",
        model="",
        features=features,
        xcr0="0x60000",
        amx=Amx(enabled=True, permitted=True, palette=None),
    )
    limits = [hold_onednn_back(reporter, cpu) for _ in range(2)]
    assert [limit and limit.environment() for limit in limits] == [{"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}] * 2
    (note,) = reporter.announcements
    assert note.startswith("oneDNN is held back to AVX512_CORE: this CPU announces AMX, but ")
    assert hold_onednn_back(reporter, cpu.model_copy(update={"amx": None})) is None
