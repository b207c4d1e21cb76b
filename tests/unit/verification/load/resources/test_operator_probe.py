from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cpuwheels.verification import load

PROBE = Path(load.__file__).parent / "resources" / "operator_probe.py"
FAKE_TORCH = """\
import atexit
import os

__version__ = "2.0+cpu"
_registry = {"aten::add.Tensor": "aten::add.Tensor() -> ()"}


class _C:
    @staticmethod
    def _dispatch_get_all_op_names():
        return list(_registry)

    @staticmethod
    def _get_schema(name, overload):
        found = _registry[f"{name}.{overload}" if overload else name]
        if not found:
            raise RuntimeError("Found no matching schema")
        return found


class ops:
    @staticmethod
    def load_library(path):
        for line in open(path):
            name, _, schema = line.strip().partition("=")
            if name == "kill":
                os.kill(os.getpid(), int(schema))
            elif name == "at_exit":
                atexit.register(os.kill, os.getpid(), int(schema))
            else:
                _registry[name] = schema
"""


def probe(folder: Path, *modules: tuple[str, Path]) -> dict[str, int]:
    """Load modules, and return the status of each process by the module's name."""
    (folder / "torch").mkdir(exist_ok=True)
    (folder / "torch/__init__.py").write_text(FAKE_TORCH)
    lines = [
        [kind, str(path), str(folder / f"{path.name}.json"), str(folder / f"{path.name}.log")] for kind, path in modules
    ]
    done = subprocess.run(
        [sys.executable, "-P", PROBE],
        input="".join(f"{json.dumps(line)}\n" for line in lines),
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {Path(path).name: status for path, status in map(json.loads, done.stdout.splitlines())}


def answer(folder: Path, name: str) -> dict[str, object]:
    return json.loads((folder / f"{name}.json").read_text())


def test_only_what_the_library_adds_and_can_be_called_is_told(tmp_path: Path) -> None:
    library = tmp_path / "_C.abi3.so"
    library.write_text("_C::b.out=_C::b.out() -> ()\n_C::a=_C::a() -> ()\n_C::kernel_only=\n")
    assert probe(tmp_path, ("library", library)) == {"_C.abi3.so": 0}
    assert answer(tmp_path, "_C.abi3.so") == {
        "torch": "2.0+cpu",
        "operators": {"_C::a": "_C::a() -> ()", "_C::b.out": "_C::b.out() -> ()"},
    }


def test_each_library_has_a_process_of_its_own(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"{name}::a={name}::a() -> ()\n")
    assert probe(tmp_path, ("library", tmp_path / "one"), ("library", tmp_path / "two")) == {"one": 0, "two": 0}
    assert [list(answer(tmp_path, name)["operators"]) for name in ("one", "two")] == [["one::a"], ["two::a"]]  # type: ignore[call-overload]


@pytest.mark.parametrize(("number", "name"), [(signal.SIGILL, "illegal"), (signal.SIGSEGV, "fault")])
def test_a_library_that_kills_its_process_harms_no_other(tmp_path: Path, number: int, name: str) -> None:
    (tmp_path / name).write_text(f"kill={number.value}\n")  # type: ignore[attr-defined]
    (tmp_path / "good").write_text("good::a=good::a() -> ()\n")
    assert probe(tmp_path, ("library", tmp_path / name), ("library", tmp_path / "good")) == {name: -number, "good": 0}
    assert not (tmp_path / f"{name}.json").exists()


def test_a_library_that_dies_when_its_process_ends_is_told(tmp_path: Path) -> None:
    (tmp_path / "late").write_text("at_exit=9\nlate::a=late::a() -> ()\n")
    assert probe(tmp_path, ("library", tmp_path / "late")) == {"late": -signal.SIGKILL}


def test_a_module_is_imported_by_its_path(tmp_path: Path) -> None:
    # Any stable-ABI extension that needs nothing else does.
    module = next(Path(psutil.__file__).parent.glob("_psutil_*.so"))
    copy = tmp_path / f"{module.name.partition('.')[0]}.abi3.so"
    shutil.copyfile(module, copy)
    assert probe(tmp_path, ("module", copy)) == {copy.name: 0}, (tmp_path / f"{copy.name}.log").read_text()
    assert answer(tmp_path, copy.name)["operators"] == {}


def test_a_broken_module_fails_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "x.abi3.so").write_text("no module")
    assert probe(tmp_path, ("module", tmp_path / "x.abi3.so")) == {"x.abi3.so": 1}
    assert "ImportError" in (tmp_path / "x.abi3.so.log").read_text()
    assert not (tmp_path / "x.abi3.so.json").exists()
