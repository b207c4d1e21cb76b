"""Which library a chooser loads on each CPU, and which it has to."""

from __future__ import annotations

from pathlib import Path

import pytest

import fake_machine
from cpuwheels.core.errors import InstallCheckError
from cpuwheels.verification.emulation.cpus import Cpu
from cpuwheels.verification.load.dispatch_check import require_chosen

TARGET = fake_machine.foreign()


def cpu(folder: Path, answer: str, name: str = "", features: tuple[str, ...] = ("one", "two")) -> Cpu:
    python = folder / f"python-{name}"
    python.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n{answer}\n')
    python.chmod(0o755)
    return Cpu(name, frozenset(features), [python])


def test_the_first_library_that_a_cpu_can_run_has_to_be_loaded(tmp_path: Path) -> None:
    cpus = [
        cpu(tmp_path, "echo a word of torch; echo '\"_C_NEWER\"'", "new"),
        cpu(tmp_path, "echo '\"_C_OLDER\"'", "old", ("one",)),
        cpu(tmp_path, "exit 1", "none of its libraries", ()),
    ]
    assert require_chosen(cpus, TARGET, tmp_path, tmp_path / "log") == {"new": "_C_NEWER", "old": "_C_OLDER"}
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[2:] for line in asked] == [["vllm._C", f"{tmp_path}/vllm/_C.abi3.so"]] * 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("echo '\"_C_OLDER\"'", r"_C\.abi3\.so loads _C_OLDER on this machine's CPU, and not _C_NEWER"),
        ("echo ImportError: no CPU; exit 1", r"_C\.abi3\.so cannot be imported on this machine's CPU"),
    ],
)
def test_another_library_or_none_is_an_error(tmp_path: Path, answer: str, message: str) -> None:
    with pytest.raises(InstallCheckError, match=message):
        require_chosen([cpu(tmp_path, answer)], TARGET, tmp_path, tmp_path / "log")


def test_without_a_chooser_nothing_is_asked(tmp_path: Path) -> None:
    target = fake_machine.foreign(chooser=None)
    assert require_chosen([cpu(tmp_path, "exit 1")], target, tmp_path, tmp_path / "log") == {}
    assert not (tmp_path / "asked").exists()
