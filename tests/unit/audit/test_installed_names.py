"""What a wheel may install: its own packages, and programs that are named after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.audit.installed_names import name_faults, program_faults, refuse_startup_code
from cpuwheels.core.errors import WheelError
from small_wheels import write_wheel

OWN = frozenset({"vllm"})
INFO = "vllm-1.dist-info"


def test_its_own_names_are_fine() -> None:
    names = ["vllm/__init__.py", "vllm/a/b.so", "vllm.libs/libnuma.so.1", f"{INFO}/METADATA"]
    assert list(name_faults(names, OWN, INFO)) == []


@pytest.mark.parametrize(
    "name", ["evil.pth", "torch/__init__.py", "sitecustomize.py", "vllm-1.data/scripts/python", "vllm-2.dist-info/X"]
)
def test_other_names_are_told(name: str) -> None:
    top = name.partition("/")[0]
    assert list(name_faults(["vllm/a.py", name], OWN, INFO)) == [f"{top} would be installed outside of vllm"]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", []),
        ("[console_scripts]\nvllm = vllm.entrypoints.cli.main:main\nvllm-rs = vllm.rs:main\n", []),
        ("[vllm.general_plugins]\nanything = vllm.plugins:x\n", []),
        ("[console_scripts]\npip = vllm.x:main\n", ["entry_points.txt installs the program pip"]),
        ("[gui_scripts]\nPython = vllm.x:main\n", ["entry_points.txt installs the program Python"]),
        ("[console_scripts]\nvllm-/../pip = vllm.x:main\n", ["entry_points.txt installs the program vllm-/../pip"]),
        ("[vllm.plugins]\npython = vllm.x:main\n", []),
        (
            "[console_scripts]\nvllm = os:system\n",
            ["entry_points.txt has the program vllm run os:system, which is not in this wheel"],
        ),
    ],
)
def test_programs_are_named_after_the_package_and_run_its_code(text: str, faults: list[str]) -> None:
    assert list(program_faults(text, OWN)) == faults


@pytest.mark.parametrize("text", ["no section", "[console_scripts]\na = vllm:b\na = vllm:c\n"])
def test_what_cannot_be_read_is_told(text: str) -> None:
    (fault,) = program_faults(text, OWN)
    assert fault.startswith("entry points cannot be read: ")


@pytest.mark.parametrize(
    "name",
    [
        "a.pth",
        "sitecustomize.py",
        "sitecustomize/__init__.py",
        "usercustomize.cpython-311-x86_64-linux-gnu.so",
        "vllm-1.data/purelib/a.pth",
        "vllm-1.data/platlib/sitecustomize.py",
    ],
)
def test_a_wheel_that_runs_when_python_starts_is_refused(tmp_path: Path, name: str) -> None:
    refuse_startup_code(
        write_wheel(tmp_path, "vllm", "1", {"vllm/__init__.py": "", "vllm/a.pth": "", "other/b.py": ""})
    )
    with pytest.raises(WheelError, match="would run when it starts"):
        refuse_startup_code(write_wheel(tmp_path, "vllm", "1", {"vllm/__init__.py": "", name: ""}))
