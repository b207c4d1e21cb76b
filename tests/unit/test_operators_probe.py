from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import psutil

import cpuwheels

PROBE = Path(cpuwheels.__file__).with_name("operators_probe.py")
FAKE_TORCH = """\
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
            _registry[name] = schema
"""


def probe(folder: Path, kind: str, path: Path) -> subprocess.CompletedProcess[str]:
    (folder / "torch").mkdir(exist_ok=True)
    (folder / "torch/__init__.py").write_text(FAKE_TORCH)
    return subprocess.run(
        [sys.executable, "-P", PROBE, kind, path, folder / "answer.json"],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_only_what_the_library_adds_and_can_be_called_is_told(tmp_path: Path) -> None:
    library = tmp_path / "_C.abi3.so"
    library.write_text("_C::b.out=_C::b.out() -> ()\n_C::a=_C::a() -> ()\n_C::kernel_only=\n")
    assert probe(tmp_path, "library", library).returncode == 0
    assert json.loads((tmp_path / "answer.json").read_text()) == {
        "torch": "2.0+cpu",
        "operators": {"_C::a": "_C::a() -> ()", "_C::b.out": "_C::b.out() -> ()"},
    }


def test_a_module_is_imported_by_its_path(tmp_path: Path) -> None:
    # Any stable-ABI extension that needs nothing else does.
    module = next(Path(psutil.__file__).parent.glob("_psutil_*.so"))
    copy = tmp_path / f"{module.name.partition('.')[0]}.abi3.so"
    shutil.copyfile(module, copy)
    done = probe(tmp_path, "module", copy)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "answer.json").read_text())["operators"] == {}


def test_a_broken_module_fails_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "x.abi3.so").write_text("no module")
    done = probe(tmp_path, "module", tmp_path / "x.abi3.so")
    assert done.returncode != 0
    assert "x.abi3.so" in done.stderr
    assert not (tmp_path / "answer.json").exists()
