"""The probe asks a real setuptools about small projects."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cpuwheels import wheel

PROBE = Path(wheel.__file__).parent / "resources" / "setup_py_probe.py"
SETUP = """\
{before}
from setuptools import setup
setup(name="demo", version=open("VERSION").read().strip(), packages=["demo"], package_data={{"demo": ["*.json"]}})
"""


def ask(folder: Path, before: str = "") -> tuple[dict[str, dict[str, list[str]]], subprocess.CompletedProcess[str]]:
    """Ask a project, and return what each question noted."""
    tree = folder / "tree"
    for name, text in {
        "demo/__init__.py": "a = 1\n",
        "demo/data.json": "{}",
        "VERSION": "1.0",
        "other.txt": "",
        "setup.py": SETUP.format(before=before),
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (folder / "answers/metadata").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-P", PROBE, folder / "answers"],
        cwd=tree,
        env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    notes = {path.stem: json.loads(path.read_text()) for path in (folder / "answers").glob("*.json")}
    return notes, done


def test_what_is_read_written_and_copied_is_told_apart(tmp_path: Path) -> None:
    notes, done = ask(tmp_path, "open('demo/made.py', 'w').write('made')")
    assert done.returncode == 0, done.stderr
    (info,) = (tmp_path / "answers/metadata").glob("*.dist-info")
    assert "Name: demo\nVersion: 1.0\n" in (info / "METADATA").read_text()
    tree, packages = tmp_path / "tree", tmp_path / "answers/packages"
    assert (packages / "demo/made.py").read_text() == "made"
    for said in notes.values():
        assert said["against"] == []
        assert {"setup.py", "VERSION"} <= set(said["read"])
        assert not {"demo/__init__.py", "demo/data.json", "demo/made.py", "other.txt"} & set(said["read"])
        assert str(tree / "demo/made.py") in said["written"]
    copied = notes["packages"]["copied"]
    assert copied == {
        str(packages / name): str(tree / name) for name in ("demo/__init__.py", "demo/data.json", "demo/made.py")
    }


def test_a_file_that_is_read_and_copied_counts_as_read(tmp_path: Path) -> None:
    notes, _ = ask(tmp_path, "exec(open('demo/__init__.py').read())")
    assert "demo/__init__.py" in notes["metadata"]["read"]
    assert "demo/__init__.py" in notes["packages"]["read"]


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("import subprocess; subprocess.run(['true'])", "it starts true"),
        ("import os; os.system('true')", "os.system"),
        ("open('/etc/passwd').close()", "it reads /etc/passwd"),
        ("import os; os.link('other.txt', f'linked-{os.getpid()}')", "os.link of other.txt"),
        ("import os; os.rename('other.txt', 'x'); os.rename('x', 'other.txt')", "os.rename of other.txt"),
    ],
)
def test_what_notes_cannot_tell_counts_against_the_answers(tmp_path: Path, before: str, reason: str) -> None:
    notes, done = ask(tmp_path, before)
    assert done.returncode == 0, done.stderr
    assert reason in notes["metadata"]["against"]


def test_a_file_that_is_changed_in_place_counts_as_read(tmp_path: Path) -> None:
    notes, _ = ask(tmp_path, "open('other.txt', 'a').close()")
    assert "other.txt" in notes["metadata"]["read"]


PATCHING = """\
from setuptools.command import build_py
class Command(build_py.build_py):
    def run(self):
        super().run()
        {step}
import setuptools, functools, os
setuptools.setup = functools.partial(setuptools.setup, cmdclass={{"build_py": Command}})
"""
STEPS = {
    "read again": "text = open(os.path.join(self.build_lib, 'demo/__init__.py')).read()",
    "added to": "open(os.path.join(self.build_lib, 'demo/__init__.py'), 'a').close()",
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_copy_that_is_changed_later_depends_on_what_was_copied(tmp_path: Path, step: str) -> None:
    notes, done = ask(tmp_path, PATCHING.format(step=step))
    assert done.returncode == 0, done.stderr
    assert "demo/__init__.py" in notes["packages"]["read"]


def test_a_copy_of_a_copy_leads_to_the_first_file(tmp_path: Path) -> None:
    step = "self.copy_file(f'{self.build_lib}/demo/data.json', f'{self.build_lib}/demo/two.json')"
    notes, done = ask(tmp_path, PATCHING.format(step=step))
    assert done.returncode == 0, done.stderr
    copied = {Path(copy).name: Path(origin) for copy, origin in notes["packages"]["copied"].items()}
    assert copied["two.json"] == tmp_path / "tree/demo/data.json"


@pytest.mark.parametrize(("before", "status"), [("raise RuntimeError('the moon')", 1), ("import sys; sys.exit(3)", 3)])
def test_a_setup_that_fails_is_told_with_its_status(tmp_path: Path, before: str, status: int) -> None:
    notes, done = ask(tmp_path, before)
    assert done.returncode == status
    assert "the moon" in done.stderr or status == 3
    assert notes == {}
