from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import BuildEnvironmentError, InstallCheckError
from cpuwheels.core.process import run
from cpuwheels.verification.load.loader import Loader, Module

if TYPE_CHECKING:
    from pathlib import Path

TORCH = """\
class _C:
    _dispatch_get_all_op_names = staticmethod(lambda: list(registry))
    _get_schema = staticmethod(lambda name, overload: registry[name])


class ops:
    @staticmethod
    def load_library(path):
        print("words of", path)
        registry["ns::a"] = "ns::a() -> ()"


registry = {}
__version__ = "2.0"
"""


def interpreter(folder: Path, torch: str = TORCH) -> Path:
    """An interpreter that finds only this torch."""
    (folder / "site").mkdir()
    (folder / "site/torch.py").write_text(torch)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}/site" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


def test_what_each_module_said_is_kept_apart_and_logged(tmp_path: Path) -> None:
    paths = [tmp_path / "_C.abi3.so", tmp_path / "broken.abi3.so"]
    with Loader(lambda: interpreter(tmp_path), tmp_path / "work", tmp_path / "log") as loader:
        loaded = loader.load([Module("library", paths[0]), Module("module", paths[1])])
        assert loader.python() == tmp_path / "python"
    good, broken = (loaded[path] for path in paths)
    assert (good.torch, good.operators) == ("2.0", (("ns::a", "ns::a() -> ()"),))
    assert good.done.output == f"words of {paths[0]}"
    assert (broken.done.returncode, broken.torch, broken.operators) == (1, "", ())
    assert "ImportError" in broken.done.output
    assert f"# {paths[1]}: status 1" in (tmp_path / "log").read_text()


def test_the_process_has_the_variables_that_the_cpu_needs(tmp_path: Path) -> None:
    told = TORCH + "import os\nprint('limit', os.environ['ONEDNN_MAX_CPU_ISA'])\n"
    env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
    with Loader(lambda: interpreter(tmp_path, told), tmp_path / "work", tmp_path / "log", env) as loader:
        loader.load([Module("library", tmp_path / "_C.abi3.so")])
    assert "limit AVX512_CORE" in (tmp_path / "log").read_text()


def test_torch_is_imported_before_there_is_anything_to_load(tmp_path: Path) -> None:
    marker = tmp_path / "imported"
    os.mkfifo(marker)
    python = interpreter(tmp_path, f"open({str(marker)!r}, 'w').close()\n{TORCH}")
    with Loader(lambda: python, tmp_path / "work", tmp_path / "log"):
        marker.read_text()  # comes back when the other end was opened and closed


def test_an_environment_that_cannot_be_made_is_told_when_it_is_needed(tmp_path: Path) -> None:
    def fail() -> Path:
        raise BuildEnvironmentError("no space in the moon", where="moon")

    with (
        Loader(fail, tmp_path / "work", tmp_path / "log") as loader,
        pytest.raises(BuildEnvironmentError, match="moon"),
    ):
        loader.python()


def test_a_torch_that_cannot_be_imported_is_told_in_its_own_words(tmp_path: Path) -> None:
    python = interpreter(tmp_path, "raise ImportError('libgomp.so.1 is missing')")
    with (
        Loader(lambda: python, tmp_path / "work", tmp_path / "log") as loader,
        pytest.raises(InstallCheckError, match=r"torch cannot be loaded: ImportError: libgomp\.so\.1 is missing"),
    ):
        loader.load([Module("library", tmp_path / "_C.abi3.so")])


def test_without_anything_to_load_it_ends_by_itself(tmp_path: Path) -> None:
    before = threading.active_count()
    with Loader(lambda: interpreter(tmp_path), tmp_path / "work", tmp_path / "log"):
        pass
    assert threading.active_count() == before
    assert "# exit status 0" in (tmp_path / "log").read_text()


def test_an_error_beside_it_ends_what_is_under_way(tmp_path: Path) -> None:
    """As when a download goes on in the thread, which hears of no signal, and another is tried when it fails."""
    begun = threading.Event()

    def endless() -> Path:
        for _ in range(2):
            run(["sh", "-c", "echo begun; sleep 600"], log=tmp_path / "log", on_line=lambda _: begun.set(), check=False)
        return tmp_path / "python"

    def interrupted() -> None:
        with Loader(endless, tmp_path / "work", tmp_path / "log"):
            assert begun.wait(60)
            raise KeyboardInterrupt

    started = time.monotonic()
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - started < 60
    assert threading.active_count() == before
    assert (tmp_path / "log").read_text().count("# exit status -15") == 2
