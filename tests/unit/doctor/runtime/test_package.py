"""Wheels and environments, made of the parts that are read."""

from __future__ import annotations

import json
import zipfile

import pytest

from chooser_elf import chooser_elf
from cpuwheels.config.patch_series import load_series
from cpuwheels.core.errors import UnusableWheelError, UsageError
from cpuwheels.doctor.runtime.package import BFLOAT16_FAULT, SHARED_MEMORY, WNA16, read_package
from layout import ROOT

ENVS = """
environment_variables: dict[str, object] = {
    "VLLM_CPU_KVCACHE_SPACE": lambda: 0,
    "VLLM_TARGET_DEVICE": lambda: "cpu",
}
other: dict[str, str] = {"NOT_ONE": ""}
"""
ATTENTION = """
class Backend:
    def get_supported_head_sizes(cls) -> list[int]:
        return [32, 64]
"""
INFO = "vllm-0.32.0+cpu.dist-info"
FILES = {
    "vllm/envs.py": ENVS,
    "vllm/platforms/cpu.py": "import vllm._C_AVX2",
    "vllm/utils/cpu_resource_utils.py": 'DEVICE_CONTROL_ENV_VAR = "CPU_VISIBLE_MEMORY_NODES"\n',
    "vllm/v1/attention/backends/cpu_attn.py": ATTENTION,
    "vllm/_C.abi3.so": f"{WNA16}(Tensor input) -> () {SHARED_MEMORY}(int a) -> ()",
    "vllm/_C_AVX2.abi3.so": f"about {WNA16}",
    "vllm/libs/libtcmalloc_minimal.so": "x",
    f"{INFO}/METADATA": "Name: vllm\nVersion: 0.32.0+cpu\nRequires-Python: >=3.11\nProvides-Extra: zen\n",
    f"{INFO}/WHEEL": "Tag: cp38-abi3-manylinux_2_27_x86_64\n",
    f"{INFO}/cpuwheels.json": json.dumps(
        {
            "patches": [
                {"file": "0014-amx-of-the-machine.patch", "state": "applied"},
                {"file": "0017-x.patch", "state": "applied", "fixes": [BFLOAT16_FAULT]},
            ]
        }
    ),
}
NAME = "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl"


def wheel(folder, files, name=NAME):
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for file, data in files.items():
            archive.writestr(file, data)
    return path


def environment(folder, files):
    site = folder / "lib" / "python3.12" / "site-packages"
    for name, data in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(data)
    return folder


def test_a_wheel_is_read(tmp_path):
    found = read_package(wheel(tmp_path, FILES))
    assert (found.version, found.requires_python, found.platforms) == (
        "0.32.0+cpu",
        ">=3.11",
        ("manylinux_2_27_x86_64",),
    )
    assert found.libraries == ("_C", "_C_AVX2")
    assert found.operators == {"_C": frozenset({WNA16, SHARED_MEMORY}), "_C_AVX2": frozenset()}
    assert found.variables == {"VLLM_CPU_KVCACHE_SPACE", "VLLM_TARGET_DEVICE", "CPU_VISIBLE_MEMORY_NODES"}
    assert found.head_sizes == {32, 64}
    assert (found.picks, found.allocator, found.sees_to_amx, found.installed) == (True, True, True, None)
    assert found.extras == {"zen"}
    assert found.rounds_bfloat16


def test_a_fix_that_was_left_out_does_not_count(tmp_path):
    patches = [{"file": "0017-x.patch", "state": "left out", "fixes": [BFLOAT16_FAULT]}]
    notes = {f"{INFO}/cpuwheels.json": json.dumps({"patches": patches})}
    assert not read_package(wheel(tmp_path, FILES | notes)).rounds_bfloat16


def test_the_fault_is_one_that_a_patch_fixes():
    assert any(BFLOAT16_FAULT in patch.fixes for patch in load_series(ROOT).patches)


def test_what_a_wheel_lacks_is_missing(tmp_path):
    fewer = {name: data for name, data in FILES.items() if "tcmalloc" not in name and "cpuwheels" not in name}
    found = read_package(wheel(tmp_path, fewer | {"vllm/platforms/cpu.py": "import vllm._C"}))
    assert (found.picks, found.allocator, found.sees_to_amx) == (False, False, False)


@pytest.mark.parametrize("part", ["", "bin/python", "lib/python3.12/site-packages"])
def test_an_environment_is_the_same_with_what_is_installed_in_it(tmp_path, part):
    place = environment(
        tmp_path / "env",
        FILES
        | {
            "torch-2.13.0+cpu.dist-info/METADATA": "x",
            "torch.libs/libgomp-a.so.1": "x",
            "zentorch/__init__.py": "",
            "bin/x": "x",
        },
    )
    (place / "bin").mkdir()
    (place / "bin" / "python").touch()
    (place / "lib" / "libiomp5.so").touch()
    found = read_package(place / part)
    plain = read_package(wheel(tmp_path, FILES))
    assert found.model_copy(update={"installed": None, "name": plain.name}) == plain
    assert found.installed is not None
    assert found.installed.model_dump() == {
        "python": "3.12",
        "torch": "2.13.0+cpu",
        "openmp": ("libgomp-a.so.1",),
        "iomp": str(place / "lib" / "libiomp5.so"),
        "zentorch": True,
    }


def test_a_chooser_is_no_library(tmp_path):
    path = wheel(tmp_path, FILES)
    with zipfile.ZipFile(path) as archive:
        assert "vllm/_C.abi3.so" in archive.namelist()
    files = {name: data for name, data in FILES.items() if "_C" not in name}
    files |= {"vllm/_C.abi3.so": chooser_elf({"_C_NEON": ("asimd",)}), "vllm/_C_NEON.abi3.so": "x"}
    found = read_package(wheel(tmp_path, files))
    assert found.libraries == ("_C_NEON",)
    assert [(one.name, one.needs) for one in found.chooser] == [("_C_NEON", ("asimd",))]


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        (NAME, {"vllm/x.py": ""}, "has no metadata"),
        ("other-1-py3-none-any.whl", FILES, "is a wheel of other"),
        ("nothing.whl", FILES, "cannot be read"),
    ],
)
def test_what_is_no_wheel_of_vllm_is_refused(tmp_path, name, files, message):
    with pytest.raises(UsageError, match=message):
        read_package(wheel(tmp_path, files, name))


def test_folders_without_vllm_are_refused(tmp_path):
    with pytest.raises(UsageError, match="has no vLLM in it"):
        read_package(tmp_path)
    with pytest.raises(UnusableWheelError, match="is not there"):
        read_package(tmp_path / "nothing")
    (tmp_path / NAME).write_text("no archive")
    with pytest.raises(UsageError, match="cannot be read"):
        read_package(tmp_path / NAME)
