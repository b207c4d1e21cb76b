"""Environments made by the real uv, offline, from wheels that a test has written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cpuwheels.config.pins import TorchPin
from cpuwheels.core.errors import BuildEnvironmentError, LockedError, TorchError
from cpuwheels.environment.build_env import EnvironmentRequest, build_environment
from cpuwheels.environment.torch_install import torch_digest
from kernel_request import environment
from loopback import DEAD
from small_wheels import write_wheel
from torch_wheels import PYTHON, pinning, write_torch

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store


def left_in(store: Store) -> list[str]:
    folder = store.root / "environments"
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def test_made_once_and_then_without_anything(
    context: BuildContext,
    request_: EnvironmentRequest,
    links: Path,
    reporter: Reporter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wheel = write_torch(links, "2.13.0+cpu")
    wanted = pinning(request_, wheel)
    made = build_environment(context, replace(wanted, locked=True))
    assert made.torch_version == "2.13.0+cpu"
    assert made.torch_from == f"{links} (named by PIP_FIND_LINKS)"
    assert made.python_version == PYTHON
    assert made.tools["cmake"] == "4.0.0"
    assert (made.site_packages / "torch" / "version.py").is_file()
    assert made.scripts == made.python.parent
    assert reporter.announcements == []
    wheel.unlink()
    monkeypatch.setenv("UV_OFFLINE", "1")
    assert build_environment(context, wanted) == made


def test_a_wheel_that_is_not_pinned_is_announced(
    context: BuildContext, request_: EnvironmentRequest, links: Path, reporter: Reporter
) -> None:
    write_torch(links, "2.13.0+cpu")
    build_environment(context, request_)
    (announcement,) = reporter.announcements
    assert "not pinned by content" in announcement
    assert str(links) in announcement


def test_locked_refuses_a_wheel_that_is_not_pinned(
    context: BuildContext, request_: EnvironmentRequest, links: Path, store: Store
) -> None:
    write_torch(links, "2.13.0+cpu")
    with pytest.raises(LockedError, match=r"torch 2\.13\.0 for \S+ is not pinned") as raised:
        build_environment(context, replace(request_, locked=True))
    assert "--locked" in raised.value.next_step
    assert left_in(store) == []


def test_where_nothing_is_pinned_a_locked_run_looks_for_no_interpreter(
    context: BuildContext, request_: EnvironmentRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpuwheels.environment.build_env.found_interpreters", lambda _: pytest.fail("it looked"))
    with pytest.raises(LockedError, match="is not pinned by content"):
        build_environment(context, replace(request_, locked=True))


def test_locked_refuses_an_environment_in_the_store_whose_wheel_is_not_pinned(
    context: BuildContext, request_: EnvironmentRequest, links: Path
) -> None:
    write_torch(links, "2.13.0+cpu")
    made = build_environment(context, request_)
    with pytest.raises(LockedError, match=r"torch 2\.13\.0 for \S+ is not pinned by content"):
        build_environment(context, replace(request_, locked=True))
    assert build_environment(context, request_) == made


def test_other_builds_are_named_and_nothing_is_installed(
    context: BuildContext, request_: EnvironmentRequest, links: Path, store: Store
) -> None:
    write_torch(links, "2.13.0+cu130", "nvidia-cublas", cuda="13.0")
    write_torch(links, "2.12.0+cpu")
    with pytest.raises(TorchError, match=r"no CPU build of torch 2\.13\.0") as raised:
        build_environment(context, request_)
    assert "torch-2.13.0+cu130-py3-none-any.whl" in raised.value.output
    assert "torch-2.12.0+cpu-py3-none-any.whl" in raised.value.output
    assert f"{links} (PIP_FIND_LINKS)" in raised.value.output
    assert f"{DEAD}/cpu (matrix.yaml)" in raised.value.output
    assert "torch-2.13.0+cpu" in raised.value.next_step
    assert left_in(store) == []


@pytest.mark.parametrize("plain", [False, True], ids=["under the CPU label", "without a label"])
def test_a_cuda_build_is_refused_before_it_is_taken(
    context: BuildContext, request_: EnvironmentRequest, links: Path, store: Store, plain: bool
) -> None:
    write_wheel(links, "nvidia_cublas", "13.1")
    write_torch(links, "2.13.0" if plain else "2.13.0+cpu", "nvidia-cublas", cuda="13.0")
    with pytest.raises(TorchError) as raised:
        build_environment(context, request_)
    reason = "unsatisfiable" if plain else "it would bring nvidia-cublas"
    assert reason in raised.value.output
    assert left_in(store) == []


def test_a_cuda_build_in_disguise_is_refused_and_removed(
    context: BuildContext, request_: EnvironmentRequest, links: Path, store: Store
) -> None:
    write_torch(links, "2.13.0+cpu", cuda="13.0")
    with pytest.raises(TorchError, match=r"is a CUDA 13\.0 build") as raised:
        build_environment(context, request_)
    assert raised.value.where == "PIP_FIND_LINKS"
    assert left_in(store) == []


def test_other_bytes_than_the_pinned_ones_are_not_installed(
    context: BuildContext, request_: EnvironmentRequest, links: Path, store: Store
) -> None:
    wanted = pinning(request_, write_torch(links, "2.13.0+cpu"))
    write_torch(links, "2.13.0+cpu", header="forged")
    with pytest.raises(TorchError) as raised:
        build_environment(context, wanted)
    assert str(links) in raised.value.output
    assert left_in(store) == []


def test_the_next_place_is_asked(
    context: BuildContext, request_: EnvironmentRequest, links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_torch(links, "2.12.0+cpu")
    write_torch(tmp_path / "second", "2.13.0+cpu")
    monkeypatch.setenv("UV_FIND_LINKS", f"{links},{tmp_path / 'second'}")
    made = build_environment(context, request_)
    assert made.torch_from == f"{tmp_path / 'second'} (named by UV_FIND_LINKS)"


def test_no_interpreter_is_told(context: BuildContext, request_: EnvironmentRequest, store: Store) -> None:
    with pytest.raises(BuildEnvironmentError, match=r"none of Python 3\.98, 3\.99 is installed") as raised:
        build_environment(context, replace(request_, pythons=("3.98", "3.99")))
    assert "3.98" in raised.value.next_step
    assert left_in(store) == []


def test_a_version_that_is_not_installed_is_passed_over(
    context: BuildContext, request_: EnvironmentRequest, links: Path
) -> None:
    write_torch(links, "2.13.0+cpu")
    assert build_environment(context, replace(request_, pythons=("3.99", PYTHON))).python_version == PYTHON


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cmake==4.0.0 --hash=sha256:" + "0" * 64 + "\n", "cmake"),
        ("ninja==9 --hash=sha256:" + "0" * 64 + "\n", "ninja"),
        ("cmake==4.0.0\n", "hash"),
    ],
    ids=["other bytes", "not there", "no hash"],
)
def test_tools_that_cannot_be_installed_are_told_and_nothing_is_left(
    context: BuildContext, request_: EnvironmentRequest, store: Store, logs: Path, text: str, words: str
) -> None:
    request_.lock.write_text(text)
    with pytest.raises(BuildEnvironmentError, match="could not be made") as raised:
        build_environment(context, request_)
    assert words in raised.value.output
    assert raised.value.log == logs / "environment.log"
    assert raised.value.next_step
    assert left_in(store) == []


def test_a_missing_lock_is_told(context: BuildContext, request_: EnvironmentRequest) -> None:
    request_.lock.unlink()
    with pytest.raises(BuildEnvironmentError, match=r"tools\.txt"):
        build_environment(context, request_)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_a_half_made_environment_is_removed(
    context: BuildContext,
    request_: EnvironmentRequest,
    links: Path,
    store: Store,
    reporter: Reporter,
    monkeypatch: pytest.MonkeyPatch,
    stop: type[BaseException],
) -> None:
    write_torch(links, "2.13.0+cpu")

    def announce(_: str) -> None:
        assert left_in(store) != []
        raise stop

    monkeypatch.setattr(reporter, "announce", announce)
    with pytest.raises(stop):
        build_environment(context, request_)
    assert left_in(store) == []


def test_what_a_killed_run_left_is_made_anew(
    context: BuildContext, request_: EnvironmentRequest, links: Path, store: Store
) -> None:
    write_torch(links, "2.13.0+cpu")
    half = store.path("environments", request_.key(PYTHON))
    (half / "bin").mkdir(parents=True)
    (half / "bin" / "python").write_text("not one")
    assert build_environment(context, request_).torch_version == "2.13.0+cpu"


def _uv_that(folder: Path, script: str) -> str:
    folder.mkdir()
    (folder / "uv").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "uv").chmod(0o755)
    return str(folder / "uv")


def test_a_uv_that_fails_is_told_in_its_own_words(
    context: BuildContext, request_: EnvironmentRequest, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = _uv_that(
        tmp_path / "fake", 'case "$1" in python) echo /usr/bin/python3 ;; *) echo "error: the moon"; exit 2 ;; esac'
    )
    monkeypatch.setattr("cpuwheels.fetch.uv.uv.find_uv_bin", lambda: fake)
    with pytest.raises(BuildEnvironmentError) as raised:
        build_environment(context, request_)
    assert raised.value.output == "error: the moon"
    assert left_in(store) == []


def test_the_key_names_what_the_environment_depends_on(request_: EnvironmentRequest) -> None:
    key = request_.key(PYTHON)
    assert replace(request_, locked=True).key(PYTHON) == key
    others = [request_.key("3.99"), replace(request_, torch="2.14.0").key(PYTHON)]
    others.append(replace(request_, pin=TorchPin(index="https://elsewhere")).key(PYTHON))
    request_.lock.write_text("")
    others.append(request_.key(PYTHON))
    assert len({key, *others}) == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"python_version": "3.99"},
        {"python": Path("/elsewhere/python")},
        {"torch_version": "2.99.0+cpu"},
        {"torch_digest": "other"},
        {"tools": {"cmake": "5.0.0"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_key_of_an_environment_names_what_programs_read_there(changes: dict[str, Any]) -> None:
    assert environment(**changes).key() != environment().key()


@pytest.mark.parametrize(
    ("row", "matters"),
    [
        ("torch/include/a.h,sha256=2,1", True),
        ("torch/lib/libtorch_cpu.so,sha256=2,1", True),
        ("torch/share/cmake/Torch/TorchConfig.cmake,sha256=2,1", True),
        ("torch/nn/__init__.py,sha256=2,1", False),
        ("torch/_C.cpython-311-x86_64-linux-gnu.so,sha256=2,1", False),
    ],
)
def test_torchs_digest_is_that_of_headers_and_libraries(tmp_path: Path, row: str, matters: bool) -> None:
    record = tmp_path / "torch-2.13.0+cpu.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("torch/include/a.h,sha256=1,1\n")
    before = torch_digest(tmp_path)
    record.write_text(f"torch/include/a.h,sha256=1,1\n{row}\n")
    assert (torch_digest(tmp_path) != before) is matters
