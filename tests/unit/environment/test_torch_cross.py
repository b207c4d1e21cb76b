"""Torch for another machine: a wheel of that machine, else Debian's from the lock that the matrix names."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import yaml

from contexts import build_context
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.pins import TorchAlternate, TorchPin, TorchWheel
from cpuwheels.core.errors import CpuwheelsError, LockedError, MatrixError, TorchError
from cpuwheels.environment.foreign_torch import ForeignTorch
from cpuwheels.environment.torch_cross import foreign_torch
from cpuwheels.fetch.requests import FILE, Requests, listed, watched
from deb_writer import Deb
from loopback import DEAD, Answer, Server
from sample_source import sha256
from torch_wheels import PYTHON, write_torch

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

Asked = Callable[..., ForeignTorch]
LAID_OUT = {
    "usr/include/torch/all.h": "",
    "usr/lib/s390x-linux-gnu/libtorch.so": "torch",
    "usr/lib/s390x-linux-gnu/libtorch_cpu.so.2.14": "torch_cpu",
    "usr/lib/s390x-linux-gnu/libc10.so.2.14": "c10",
    "usr/lib/s390x-linux-gnu/libgomp.so.1": "gomp",
}


PIN = TorchPin(index=f"{DEAD}/cpu")


@pytest.fixture(autouse=True)
def patchelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A patchelf that writes what it was told into the library."""
    program = tmp_path / "patchelf"
    program.write_text('#!/bin/sh\necho "$1 $2" >> "$3"\n')
    program.chmod(0o755)
    monkeypatch.setattr("cpuwheels.environment.torch_debian.patchelf", lambda: program)
    return program


@pytest.fixture
def asked(tmp_path: Path, store: Store, reporter: Reporter, logs: Path) -> Asked:
    logs.mkdir()

    def ask(pin: TorchPin = PIN, *, locked: bool = False) -> ForeignTorch:
        context = build_context(
            tmp_path,
            "s390x",
            root=tmp_path,
            options=BuildOptions(locked=locked),
            store=store,
            reporter=reporter,
            logs=logs,
            mirrors=((tmp_path / "mirror").as_uri(),),
            python=(PYTHON,),
        )
        return foreign_torch(context, "2.14.0", pin)

    return ask


def with_alternate(root: str = "root") -> TorchPin:
    return PIN.model_copy(update={"alternates": (TorchAlternate(machine="s390x", version="2.14.1", root=root),)})


def write_lock(folder: Path, files: dict[str, str]) -> None:
    """Write locks/root.yaml, and the mirror with its only package."""
    data = Deb(files=files).write(folder / "mirror" / "pool" / "torch.deb").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    package = {"name": "t", "version": "1", "path": "pool/torch.deb", "size": len(data), "sha256": digest}
    (folder / "locks").mkdir()
    lock = {"suites": {"sid": ["t"]}, "architecture": "s390x", "packages": [package]}
    (folder / "locks" / "root.yaml").write_text(yaml.safe_dump(lock))


def told(error: CpuwheelsError) -> str:
    """Return an error's words; what happened, where, and what to do are all there."""
    assert error.what
    assert error.where
    assert error.next_step
    return f"{error.what}\n{error.output}\n{error.next_step}"


def test_a_wheel_of_the_target_is_taken_though_nothing_here_runs_it(
    asked: Asked, links: Path, reporter: Reporter
) -> None:
    wheel = write_torch(links, "2.14.0+cpu")
    name = f"torch-2.14.0+cpu-cp{PYTHON.replace('.', '')}-cp{PYTHON.replace('.', '')}-manylinux_2_28_s390x.whl"
    wheel.rename(links / name)
    wanted = with_alternate()
    torch = asked(wanted)
    assert (torch.version, torch.alternate, torch.pinned) == ("2.14.0+cpu", False, False)
    assert (torch.folder / "include" / "torch" / "all.h").is_file()
    assert "is not pinned by content" in reporter.announcements[0]
    shutil.rmtree(links)
    assert asked(wanted) == torch


def test_wheels_of_other_machines_and_cuda_builds_are_passed_over(asked: Asked, links: Path) -> None:
    wheel = write_torch(links, "2.14.0+cpu", cuda="13.0")
    wheel.rename(links / "torch-2.14.0+cpu-py3-none-manylinux_2_28_s390x.whl")
    with pytest.raises(TorchError, match=r"no CPU build of torch 2\.14\.0 can be found for Linux s390x") as caught:
        asked()
    assert "a CUDA 13.0 build" in told(caught.value)


def test_without_a_wheel_and_without_an_alternate_one_message_says_where_it_was_looked_for(
    asked: Asked, links: Path
) -> None:
    write_torch(links, "2.13.0+cpu")
    with pytest.raises(TorchError, match=r"no CPU build of torch 2\.14\.0 can be found for Linux s390x") as caught:
        asked()
    message = told(caught.value)
    assert f"{links} (PIP_FIND_LINKS)" in message
    assert f"{DEAD}/cpu (matrix.yaml)" in message
    assert "UV_FIND_LINKS" in message


def test_an_alternate_is_laid_out_as_a_wheel_and_announced(asked: Asked, reporter: Reporter, tmp_path: Path) -> None:
    write_lock(tmp_path, LAID_OUT)
    torch = asked(with_alternate())
    assert (torch.version, torch.alternate, torch.origin) == ("2.14.1", True, "locks/root.yaml")
    assert {path.name: path.read_text() for path in (torch.folder / "lib").iterdir()} == {
        "libtorch.so": "torch--set-soname libtorch.so\n",
        "libtorch_cpu.so": "torch_cpu--set-soname libtorch_cpu.so\n",
        "libc10.so": "c10--set-soname libc10.so\n",
        "libgomp.so.1": "gomp",
    }
    (announcement,) = reporter.announcements
    assert "Debian's 2.14.1" in announcement


def test_a_library_that_cannot_be_renamed_is_named(asked: Asked, tmp_path: Path, patchelf: Path) -> None:
    patchelf.write_text("#!/bin/sh\necho no ELF file\nexit 1\n")
    write_lock(tmp_path, LAID_OUT)
    with pytest.raises(TorchError, match=r"libtorch\.so cannot be given PyTorch's name") as caught:
        asked(with_alternate())
    assert "no ELF file" in told(caught.value)


def test_in_a_locked_run_pip_has_no_network(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page on this machine may link to a file that is elsewhere."""
    wheel = write_torch(tmp_path, "2.14.0+cpu")
    name = "torch-2.14.0+cpu-py3-none-manylinux_2_28_s390x.whl"
    pin = PIN.model_copy(update={"wheels": (TorchWheel(python="cp311", machine="s390x", sha256=sha256(wheel)),)})
    with Server() as server:
        url = server.serve(f"/{quote(name)}", Answer(wheel.read_bytes()))
        (tmp_path / "page.html").write_text(f'<a href="{url}">{name}</a>')
        monkeypatch.setenv("PIP_FIND_LINKS", (tmp_path / "page.html").as_uri())
        with (
            watched(Requests(tmp_path / FILE, listed("the list", [], pages=[f"{DEAD}/cpu/torch/"]))),
            pytest.raises(TorchError),
        ):
            asked(pin, locked=True)
        assert server.asked == []
        assert asked(pin).pinned
        assert server.asked == [f"/{quote(name)}"]


def test_locked_refuses_an_alternate(asked: Asked) -> None:
    with pytest.raises(LockedError, match="is not pinned by content") as caught:
        asked(with_alternate(), locked=True)
    assert "build without --locked" in told(caught.value)
    assert "--allow-fallbacks" in told(caught.value)


def test_an_alternate_whose_lock_is_not_there(asked: Asked) -> None:
    with pytest.raises(MatrixError) as caught:
        asked(with_alternate("gone"))
    assert "gone.yaml" in told(caught.value) + str(caught.value.where)


@pytest.mark.parametrize("lacking", ["usr/include/torch/all.h", "usr/lib/s390x-linux-gnu/libc10.so.2.14"])
def test_a_root_without_the_whole_of_torch_is_named(asked: Asked, tmp_path: Path, lacking: str) -> None:
    write_lock(tmp_path, {name: text for name, text in LAID_OUT.items() if name != lacking})
    with pytest.raises(TorchError, match="the packages hold no") as caught:
        asked(with_alternate())
    assert caught.value.where == "locks/root.yaml"
    assert "libtorch-dev" in told(caught.value)
