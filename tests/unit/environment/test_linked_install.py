"""Wheels whose files are linked to those of the wheels before."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cpuwheels.core.errors import UnusableWheelError
from cpuwheels.environment.linked_install import install_linked
from cpuwheels.fetch.uv import install_alone, run_uv, site_packages
from small_wheels import write_wheel

FILES = {
    "vllm/__init__.py": "def main():\n    print('served')\n",
    "vllm/one.py": "one = 1\n",
    "vllm/same.py": "one = 1\n",
    "vllm/empty.py": "",
    "vllm-1.0.dist-info/entry_points.txt": "[console_scripts]\nvllm = vllm:main\n",
    "vllm-1.0.data/scripts/tool": "#!python\nprint('tooled')\n",
}


def venv(folder: Path, name: str) -> Path:
    run_uv(["venv", "--quiet", "--python", sys.executable, folder / name], folder / "venv.log")
    return folder / name / "bin" / "python"


def rewritten(wheel: Path, members: dict[str, str], modes: dict[str, int] | None = None) -> Path:
    """Change members of a wheel, whose RECORD stays as it is."""
    with zipfile.ZipFile(wheel) as archive:
        found = {item.filename: archive.read(item) for item in archive.infolist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in (found | {name: text.encode() for name, text in members.items()}).items():
            item = zipfile.ZipInfo(name)
            item.external_attr = (modes or {}).get(name, 0o100644) << 16
            archive.writestr(item, content)
    return wheel


def contents(folder: Path) -> dict[str, bytes]:
    """Return the installed files, but for those that name the installer."""
    names = [path for path in folder.rglob("*") if path.is_file() and path.name not in {"RECORD", "INSTALLER"}]
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


def test_it_installs_what_uv_installs(tmp_path: Path) -> None:
    modes = {"vllm/one.py": 0o100755, "vllm-1.0.data/scripts/tool": 0o100755}
    wheel = rewritten(write_wheel(tmp_path, "vllm", "1.0", FILES), {}, modes)
    ours, others = venv(tmp_path, "ours"), venv(tmp_path, "others")
    install_linked(wheel, ours, tmp_path / "kept")
    install_alone(wheel, others, tmp_path / "log")
    found, wanted = (contents(site_packages(python.parent.parent)) for python in (ours, others))
    assert {Path(name).name for name in wanted.keys() - found.keys()} <= {
        "REQUESTED",
        "direct_url.json",
        "uv_cache.json",
    }
    assert {name: wanted.get(name) for name in found} == found
    for program, printed in (("vllm", "served\n"), ("tool", "tooled\n")):
        done = subprocess.run([ours.parent / program], check=True, capture_output=True, text=True)
        assert done.stdout == printed
    assert (site_packages(ours.parent.parent) / "vllm" / "one.py").stat().st_mode & 0o111


def test_what_two_wheels_have_in_common_is_unpacked_once(tmp_path: Path) -> None:
    first = write_wheel(tmp_path / "a", "vllm", "1.0", FILES)
    second = write_wheel(tmp_path / "b", "vllm", "1.0", FILES | {"vllm/one.py": "one = 2\n"})
    sites = []
    for name, wheel in (("one", first), ("two", second)):
        python = venv(tmp_path, name)
        install_linked(wheel, python, tmp_path / "kept")
        sites.append(site_packages(python.parent.parent) / "vllm")
    assert (sites[0] / "__init__.py").samefile(sites[1] / "__init__.py")
    assert (sites[0] / "one.py").samefile(sites[1] / "same.py")
    assert [(site / "one.py").read_text() for site in sites] == ["one = 1\n", "one = 2\n"]
    assert sum(path.read_bytes() == b"one = 1\n" for path in (tmp_path / "kept").iterdir()) == 1


def test_a_file_that_is_not_what_record_says_is_refused(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    install_linked(write_wheel(tmp_path / "a", "vllm", "1.0", FILES), venv(tmp_path, "one"), kept)
    other = rewritten(write_wheel(tmp_path / "b", "vllm", "1.0", FILES), {"vllm/one.py": "one = 3\n"})
    with pytest.raises(UnusableWheelError, match="cannot be installed") as raised:
        install_linked(other, venv(tmp_path, "two"), kept)
    assert "of vllm/one.py, which has" in raised.value.output


@pytest.mark.parametrize(
    ("said", "why"), [("sha256=../../../outside", "no sha256"), ("sha512=abc", "no sha256"), ("", "no sha256")]
)
def test_a_record_that_names_no_content_is_refused(tmp_path: Path, said: str, why: str) -> None:
    wheel = write_wheel(tmp_path, "vllm", "1.0", {"vllm/one.py": ""})
    rewritten(wheel, {"vllm-1.0.dist-info/RECORD": f"vllm/one.py,{said},0\n"})
    with pytest.raises(UnusableWheelError) as raised:
        install_linked(wheel, venv(tmp_path, "one"), tmp_path / "kept")
    assert why in raised.value.output


@pytest.mark.parametrize("name", ["../outside.py", "vllm/../../../outside.py", "/outside.py"])
def test_nothing_is_written_outside_of_the_environment(tmp_path: Path, name: str) -> None:
    wheel = write_wheel(tmp_path, "vllm", "1.0", {name: "outside\n"})
    with pytest.raises(UnusableWheelError):
        install_linked(wheel, venv(tmp_path, "one"), tmp_path / "kept")
    assert not list(tmp_path.rglob("outside.py"))
    assert not Path("/outside.py").exists()


def test_without_hard_links_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", link)
    python = venv(tmp_path, "one")
    install_linked(write_wheel(tmp_path, "vllm", "1.0", FILES), python, tmp_path / "kept")
    assert (site_packages(python.parent.parent) / "vllm" / "one.py").read_text() == "one = 1\n"


def test_a_wheel_that_is_installed_already_is_refused(tmp_path: Path) -> None:
    wheel, python = write_wheel(tmp_path, "vllm", "1.0", {"vllm/one.py": ""}), venv(tmp_path, "one")
    install_linked(wheel, python, tmp_path / "kept")
    with pytest.raises(UnusableWheelError) as raised:
        install_linked(wheel, python, tmp_path / "kept")
    assert "is there already" in raised.value.output


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-1.0-py3-none-any.whl"
    wheel.write_text("nothing")
    with pytest.raises(UnusableWheelError):
        install_linked(wheel, venv(tmp_path, "one"), tmp_path / "kept")
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/__init__.py", "")
    shutil.rmtree(tmp_path / "one")
    with pytest.raises(UnusableWheelError):
        install_linked(wheel, venv(tmp_path, "one"), tmp_path / "kept")
