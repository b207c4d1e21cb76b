"""A wheel's editable form, installed by hand and imported by a real Python."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.editable import editable_wheel, module_files

NAME = "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_28_x86_64.whl"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel whose kernel is an extension module that every Python has."""
    extension = next(Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("_struct.*.so"), None)
    path = tmp_path / NAME
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vllm/__init__.py", "where = 'wheel'\n")
        archive.writestr("vllm/model.py", "")
        archive.writestr("vllm/_version.py", "version = '0.32.0+cpu'\n")
        archive.writestr("vllm/_struct.abi3.so", extension.read_bytes() if extension else b"")
        archive.writestr("vllm/inner/_deep.abi3.so", b"")
        archive.writestr("vllm.libs/libnuma-1234.so.1", b"")
        archive.writestr(
            "vllm-0.32.0+cpu.dist-info/METADATA", "Metadata-Version: 2.4\nName: vllm\nVersion: 0.32.0+cpu\n"
        )
        archive.writestr("vllm-0.32.0+cpu.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("vllm-0.32.0+cpu.dist-info/RECORD", "")
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout"
    (folder / "vllm" / "inner").mkdir(parents=True)
    (folder / "vllm" / "__init__.py").write_text("where = 'checkout'\n")
    (folder / "vllm" / "inner" / "__init__.py").write_text("")
    return folder


def test_only_what_the_checkout_lacks_is_in_it(wheel: Path, checkout: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / NAME
    editable_wheel(wheel, checkout, target)
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        record = archive.read("vllm-0.32.0+cpu.dist-info/RECORD").decode()
        mapping = json.loads(archive.read("_vllm_editable.json"))
    assert names == {
        "_vllm_editable.pth",
        "_vllm_editable.py",
        "_vllm_editable.json",
        "vllm/_version.py",
        "vllm/_struct.abi3.so",
        "vllm/inner/_deep.abi3.so",
        "vllm.libs/libnuma-1234.so.1",
        "vllm-0.32.0+cpu.dist-info/METADATA",
        "vllm-0.32.0+cpu.dist-info/WHEEL",
        "vllm-0.32.0+cpu.dist-info/RECORD",
    }
    assert {line.split(",")[0] for line in record.splitlines()} == names
    assert mapping == {
        "vllm._version": "vllm/_version.py",
        "vllm._struct": "vllm/_struct.abi3.so",
        "vllm.inner._deep": "vllm/inner/_deep.abi3.so",
    }


def test_python_takes_its_files_from_the_checkout_and_kernels_from_the_wheel(
    wheel: Path, checkout: Path, tmp_path: Path
) -> None:
    target, site = tmp_path / "out" / NAME, tmp_path / "site"
    editable_wheel(wheel, checkout, target)
    with zipfile.ZipFile(target) as archive:
        archive.extractall(site)
    code = (
        f"import site; site.addsitedir({str(site)!r}); import vllm, importlib.util as u;"
        "from vllm._version import version;"
        "print(vllm.where, version, *(u.find_spec(f'vllm.{n}').origin for n in ('_struct', 'inner._deep')), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "checkout",
        "0.32.0+cpu",
        str(site / "vllm/_struct.abi3.so"),
        str(site / "vllm/inner/_deep.abi3.so"),
    ]


def test_what_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("nothing")
    with pytest.raises(WheelError, match="is not a wheel"):
        editable_wheel(tmp_path / NAME, tmp_path, tmp_path / "out" / NAME)
    assert not (tmp_path / "out" / NAME).exists()


def test_libraries_are_no_modules() -> None:
    assert module_files(["vllm.libs/libnuma.so", "vllm/libs/libtcmalloc.so", "vllm/_C.abi3.so"])["vllm._C"]
    assert "vllm.libs.libnuma" not in module_files(["vllm.libs/libnuma.so"])
