"""The emulated machine: its interpreters, what it is made from, and what it says if something is missing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import fake_machine
from contexts import build_context
from cpuwheels.config.matrix import Target
from cpuwheels.core.errors import CpuwheelsError, TargetNotBuiltError, ToolchainError
from cpuwheels.verification.emulation import machine, qemu
from cpuwheels.verification.emulation.machine import EmulatedMachine, emulated_machine

ASK = "import json, os, sys; print(json.dumps([os.environ['EMULATED_CPU'], sys._xoptions['pycache_prefix'], sys.argv]))"


def test_each_cpu_has_an_interpreter_of_one_environment(tmp_path: Path) -> None:
    machine = fake_machine.machine(tmp_path)
    folder = tmp_path / "an environment"
    cpus = machine.environment(folder)
    assert [(cpu.name, cpu.features, cpu.libraries) for cpu in cpus] == [
        ("max,fast=on", {"one", "two"}, ("_C_NEWER",)),
        ("old", {"one"}, ("_C_OLDER",)),
    ]
    assert cpus[0].python == [folder / "bin/python"]
    for cpu in cpus:
        done = subprocess.run([*cpu.python, "-c", ASK, "a b"], check=True, capture_output=True, text=True)
        assert json.loads(done.stdout) == [cpu.name, str(machine.bytecode), ["-c", "a b"]]
    assert f"home = {machine.root}/usr/bin" in (folder / "pyvenv.cfg").read_text().splitlines()
    assert (folder / "lib/python3.99/site-packages").is_dir()


def test_an_environment_may_have_bytecode_of_its_own(tmp_path: Path) -> None:
    machine, own = fake_machine.machine(tmp_path), tmp_path / "own"
    (machine.bytecode / "torch").mkdir(parents=True)
    (machine.bytecode / "torch" / "x.pyc").write_bytes(b"x")
    script = machine.environment(tmp_path / "environment", own)[-1].python[0]
    assert (own / "torch" / "x.pyc").read_bytes() == b"x"
    (tmp_path / "module.py").touch()
    for wanted, there in (("1", False), ("", True)):
        subprocess.run(
            [script, "-c", "import module"], check=True, cwd=tmp_path, env={"PYTHONDONTWRITEBYTECODE": wanted}
        )
        assert bool([*own.rglob("module.*.pyc")]) is there
    assert not [*machine.bytecode.rglob("module.*")]


def test_python_takes_the_script_for_itself(tmp_path: Path) -> None:
    command = fake_machine.machine(tmp_path).command("old", tmp_path / "python")
    assert command[command.index("-0") + 1] == tmp_path / "python"
    assert command[command.index("-L") + 1] == tmp_path / "root"


class Making:
    """`emulated_machine` with packages and emulator that are there already."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.root, self.compiled = folder, folder / "root", folder / "compiled"
        (folder / "locks").mkdir()
        for name in ("root-other", "emulators"):
            (folder / f"locks/{name}.yaml").write_text("suites: {sid: [a]}\narchitecture: amd64\n")
        fake_machine.fill_root(self.root)
        monkeypatch.setattr(machine, "unpacked_root", lambda *_, **__: self.root)
        monkeypatch.setattr(machine, "find_emulator", lambda *_, **__: fake_machine.emulator(folder))
        self.imports("import os, pathlib, sys\npathlib.Path(sys._xoptions['pycache_prefix'], 'made').touch()")

    def imports(self, code: str) -> None:
        self.code = f"{code}\nopen({str(self.compiled)!r}, 'a').write('x')"

    def make(self, monkeypatch: pytest.MonkeyPatch, target: Target) -> EmulatedMachine:
        monkeypatch.setattr(machine, "_IMPORT", self.code)
        return emulated_machine(build_context(self.folder / "store", target, root=self.folder))


@pytest.fixture
def making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Making:
    return Making(tmp_path, monkeypatch)


def test_bytecode_is_made_once(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    target = fake_machine.foreign()
    first, second = making.make(monkeypatch, target), making.make(monkeypatch, target)
    assert first == second
    assert (first.bytecode / "made").is_file()
    assert making.compiled.read_text() == "x"
    assert first.torch_version == "2.5.1+debian"
    assert first.python == making.root / "usr/bin/python3.99"
    assert list(first.features) == ["max,fast=on", "old"]


def test_two_libraries_may_share_a_cpu(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    older = fake_machine.OLDER.model_copy(update={"emulated": "max,fast=on", "needs": ("three",)})
    machine = making.make(monkeypatch, fake_machine.foreign(libraries=(fake_machine.NEWER, older)))
    assert machine.features == {"max,fast=on": {"one", "two", "three"}}
    (cpu,) = machine.environment(making.folder / "environment")
    assert cpu.libraries == ("_C_NEWER", "_C_OLDER")


@pytest.mark.parametrize(
    ("gone", "message", "step"),
    [
        ("usr/bin/python3", "the root of other has no Python", "add python3 to locks/root-other.yaml"),
        ("usr/lib/python3/dist-packages/torch-2.5.1+debian.dist-info", "has no torch", "python3-torch"),
        ("usr/lib/other-linux-gnu/libtorch.so", r"has no libtorch\.so", "libtorch-dev and libgomp1"),
    ],
)
def test_what_the_root_lacks_is_named(
    making: Making, monkeypatch: pytest.MonkeyPatch, gone: str, message: str, step: str
) -> None:
    library = making.root / "usr/lib/other-linux-gnu/libtorch.so"
    library.touch()
    target = fake_machine.foreign(excluded_libraries=("libtorch.so",))
    making.make(monkeypatch, target)
    path = making.root / gone
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    with pytest.raises(ToolchainError, match=message) as caught:
        making.make(monkeypatch, target)
    assert step in caught.value.next_step


def test_a_root_that_does_not_run_torch_is_told(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    making.imports("raise ImportError('libz3.so.4: cannot open shared object file')")
    with pytest.raises(ToolchainError, match="the emulated machine does not run torch") as caught:
        making.make(monkeypatch, fake_machine.foreign())
    assert "libz3.so.4" in caught.value.output
    assert not making.compiled.exists()


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"root": None}, "a root"),
        ({"libraries": (fake_machine.NEWER.model_copy(update={"emulated": None}),)}, "the emulated CPU of a library"),
    ],
)
def test_a_target_that_cannot_be_emulated_is_refused(
    making: Making, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], missing: str
) -> None:
    with pytest.raises(TargetNotBuiltError, match="can be tested on Linux other alone") as caught:
        making.make(monkeypatch, fake_machine.foreign(**changes))
    assert missing in caught.value.where


def test_a_missing_emulator_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, lock, step in (("x86_64", {}, "--no-emulation"), ("other", {"riscv64": "a"}, "Linux machine with other")):
        monkeypatch.setattr(qemu.platform, "machine", lambda: "x86_64")
        with pytest.raises(CpuwheelsError, match="no emulator is pinned for x86_64 Linux") as caught:
            qemu.find_emulator(build_context(tmp_path, emulator=lock), name)
        assert step in caught.value.next_step
