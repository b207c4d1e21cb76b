"""Debian's torch for this kind of machine: its root runs here. For others see test_torch_cross.py."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from contexts import build_context
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.pins import TorchAlternate, TorchPin
from cpuwheels.core.errors import LockedError, TorchError
from cpuwheels.environment import torch_debian as module
from cpuwheels.environment.foreign_torch import ForeignTorch, environment_identity
from cpuwheels.environment.torch_debian import PARTS, debian_torch
from deb_writer import Deb
from loopback import DEAD

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext

REASON = TorchError("no torch", where="here", next_step="look elsewhere")
PIN = TorchPin(index=f"{DEAD}/cpu", alternates=(TorchAlternate(machine="x86_64", version="2.14.1", root="root"),))
LIBRARIES = "usr/lib/x86_64-linux-gnu"
FILES = {
    "usr/bin/python3": "python",
    "usr/include/torch/all.h": "",
    "usr/include/x86_64-linux-gnu/sleef.h": "vectors",
    f"{LIBRARIES}/libtorch.so": "torch",
    f"{LIBRARIES}/libtorch_cpu.so.2.14": "torch_cpu",
    f"{LIBRARIES}/libc10.so.2.14": "c10",
    f"{LIBRARIES}/libsleef.so.3": "sleef",
    "usr/lib/python3/dist-packages/torch-2.14.1+debian.dist-info/METADATA": "Name: torch\n",
}


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The roots whose bytecode was made."""
    program, made = tmp_path / "patchelf", list[Path]()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(module, "patchelf", lambda: program)
    monkeypatch.setattr(module, "compile_root", lambda _, final, **__: made.append(final))
    monkeypatch.setattr(module, "is_foreign", lambda target: target.machine != "x86_64")
    data = Deb(files=FILES).write(tmp_path / "mirror" / "pool" / "torch.deb").read_bytes()
    package = {"name": "t", "version": "1", "path": "pool/torch.deb", "size": len(data)}
    package["sha256"] = hashlib.sha256(data).hexdigest()
    (tmp_path / "locks").mkdir()
    lock = {"suites": {"sid": ["t"]}, "architecture": "amd64", "packages": [package]}
    (tmp_path / "locks" / "root.yaml").write_text(yaml.safe_dump(lock))
    return made


def run(folder: Path, *, locked: bool = False, allow_fallbacks: bool = False) -> BuildContext:
    options, mirror = BuildOptions(locked=locked, allow_fallbacks=allow_fallbacks), (folder / "mirror").as_uri()
    return build_context(folder, root=folder, options=options, mirrors=(mirror,))


def get(context: BuildContext) -> ForeignTorch:
    context.logs.mkdir(exist_ok=True)
    return debian_torch(context, "2.14.0", PIN, REASON)


def test_its_root_has_bytecode_and_is_what_runs_here(tmp_path: Path, compiled: list[Path]) -> None:
    found = get(run(tmp_path))
    assert found.root is not None
    assert (found.version, found.root.torch_version) == ("2.14.1", "2.14.1+debian")
    assert compiled == [found.root.folder]
    assert get(run(tmp_path)) == found
    assert compiled == [found.root.folder]


@pytest.mark.usefixtures("compiled")
def test_what_names_its_environment_is_known_before_it_is_there(tmp_path: Path) -> None:
    context = run(tmp_path)
    named = environment_identity(tmp_path, "root", "2.14.1", context.store)
    assert not named.folder.exists()
    found = get(context)
    assert (named.version, named.digest, named.folder) == (found.version, found.digest, found.folder)


def test_a_root_that_was_removed_is_unpacked_again(tmp_path: Path, compiled: list[Path]) -> None:
    found = get(run(tmp_path))
    assert found.root is not None
    found.root.folder.rename(tmp_path / "away")
    assert get(run(tmp_path)) == found
    assert found.root.python.is_file()
    assert len(compiled) == 2


@pytest.mark.usefixtures("compiled")
def test_what_pytorchs_wheel_has_inside_its_libraries_is_laid_out_apart(tmp_path: Path) -> None:
    folder = get(run(tmp_path)).folder
    assert (folder / "include" / "sleef.h").read_text() == "vectors"
    assert (folder / "lib" / PARTS / "libsleef.so.3").read_text() == "sleef"
    assert not list((folder / "lib").glob("libsleef*"))


@pytest.mark.usefixtures("compiled")
def test_it_is_announced_once(tmp_path: Path) -> None:
    context = run(tmp_path)
    for _ in range(2):
        get(context)
    (note,) = context.reporter.announcements
    assert "no wheel of torch 2.14.0 for x86_64 can be reached; Debian's 2.14.1 is used instead" in note


def test_locked_refuses_it(tmp_path: Path, compiled: list[Path]) -> None:
    with pytest.raises(LockedError, match=f"{REASON.what}, and --locked refuses its fallback") as caught:
        get(run(tmp_path, locked=True))
    assert "--allow-fallbacks" in caught.value.next_step
    assert compiled == []


def test_locked_takes_it_if_fallbacks_are_allowed(tmp_path: Path, compiled: list[Path]) -> None:
    found = get(run(tmp_path, locked=True, allow_fallbacks=True))
    assert (found.version, found.alternate) == ("2.14.1", True)
    assert compiled


def test_without_one_the_reason_stays(tmp_path: Path) -> None:
    with pytest.raises(TorchError, match="no torch"):
        debian_torch(run(tmp_path), "2.14.0", TorchPin(index=f"{DEAD}/cpu"), REASON)
