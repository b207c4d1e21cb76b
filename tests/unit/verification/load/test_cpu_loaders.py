"""The install check on several CPUs: every library in a process on its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cpuwheels.verification.emulation.cpus import Cpu
from cpuwheels.verification.load.cpu_loaders import CpuLoaders
from cpuwheels.verification.load.loader import Module

TORCH = """\
import os


class _C:
    _dispatch_get_all_op_names = staticmethod(lambda: list(registry))
    _get_schema = staticmethod(lambda name, overload: registry[name])


class ops:
    @staticmethod
    def load_library(path):
        registry["ns::a"] = "on " + os.environ["EMULATED_CPU"]


registry = {}
__version__ = "2.0"
"""


def cpu(folder: Path, name: str, *libraries: str) -> Cpu:
    python = folder / f"python-{name}"
    python.write_text(f'#!/bin/sh\nEMULATED_CPU={name} PYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return Cpu(name, frozenset(), [python], libraries)


@pytest.fixture
def cpus(tmp_path: Path) -> list[Cpu]:
    (tmp_path / "torch.py").write_text(TORCH)
    return [cpu(tmp_path, "first", "_C_A"), cpu(tmp_path, "second", "_C_B"), cpu(tmp_path, "idle", "_C_C")]


def test_each_library_is_loaded_on_its_cpu_and_the_rest_on_the_first(tmp_path: Path, cpus: list[Cpu]) -> None:
    paths = [tmp_path / f"{name}.abi3.so" for name in ("_C_B", "_C_A", "other")]
    with CpuLoaders(cpus, tmp_path / "work", tmp_path / "check.log") as loaders:
        assert loaders.python() == tmp_path / "python-first"
        loaded = loaders.load([Module("library", path) for path in paths])
    assert {path.name: one.operators[0][1] for path, one in loaded.items()} == {
        "_C_B.abi3.so": "on second",
        "_C_A.abi3.so": "on first",
        "other.abi3.so": "on first",
    }
    assert "_C_B" in (tmp_path / "check-1.log").read_text()


def test_an_error_ends_every_process(tmp_path: Path, cpus: list[Cpu]) -> None:
    (tmp_path / "torch.py").write_text("import time\ntime.sleep(600)\n")
    with pytest.raises(KeyError), CpuLoaders(cpus, tmp_path / "work", tmp_path / "check.log"):
        raise KeyError
