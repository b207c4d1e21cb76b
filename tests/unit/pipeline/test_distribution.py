"""A wheel under another name: what changes, what stays, and that uv and pip install it from an index."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from uv import find_uv_bin

from cpuwheels.audit.sbom import NOTE, sbom_faults
from cpuwheels.core.errors import UsageError, WheelError
from cpuwheels.fetch.uv import uv_environment
from cpuwheels.pipeline.distribution import check_name, redistribute, renamed_metadata
from cpuwheels.wheel.canonical import canonicalize
from cpuwheels.wheel.sbom.schema import FILE
from elf_writer import Elf
from loopback import Answer, Server
from sample_source import sha256
from wheel_notes import wheel_note
from wheel_sboms import with_sbom
from wheel_writer import write_good, write_raw

INFO = "vllm-1.0+cpu.dist-info"
HEAD = "Metadata-Version: 2.4\nName: vllm\nVersion: 1.0+cpu\n"
NEEDS = (
    "Requires-Dist: torch==2.13.0+cpu; python_version < '3'\n"
    "Requires-Dist: triton==3.8.0+cpu; extra == 'triton'\nProvides-Extra: triton\n"
    "Description-Content-Type: text/markdown\n\n# vLLM\n"
)
PLATFORM = """\
from importlib.metadata import version


def vllm_version_matches_substr(substr):
    return substr in version("vllm")
"""
CODE = Elf().write()
TAG = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"


def ours(folder: Path, platform: str = PLATFORM) -> Path:
    members = {
        "vllm/__init__.py": b"",
        "vllm/platforms/__init__.py": platform.encode(),
        "vllm/cli.py": b"import importlib.metadata\nname = importlib.metadata.version('vllm')\n",
        "vllm/other.py": b'version("vllm")\n',
        "demo/__init__.py": b"",
        "vllm/_C.abi3.so": CODE,
        f"{INFO}/METADATA": (HEAD + NEEDS).encode(),
        f"{INFO}/WHEEL": TAG.encode(),
        f"{INFO}/cpuwheels.json": wheel_note().render(),
    }
    wheel = folder / "vllm-1.0+cpu-py3-none-any.whl"
    raw = write_raw(folder / "raw.zip", with_sbom(members, INFO, wheel.name))
    canonicalize(raw, wheel, epoch=5)
    return wheel


def test_its_bill_of_materials_is_its_own(tmp_path: Path) -> None:
    other = redistribute(ours(tmp_path), "My.CPU-vllm", tmp_path / "out")
    with zipfile.ZipFile(other) as archive:
        info = "my_cpu_vllm-1.0.dist-info"
        sbom, note, metadata = (archive.read(f"{info}/{name}") for name in (FILE, NOTE, "METADATA"))
    assert (
        list(sbom_faults(sbom, note, metadata, other.name, {"vllm/_C.abi3.so": hashlib.sha256(CODE).hexdigest()})) == []
    )
    subject = json.loads(sbom)["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("My.CPU-vllm", "1.0")


def test_only_the_name_and_what_asks_for_it_differ(tmp_path: Path) -> None:
    wheel = ours(tmp_path)
    other = redistribute(wheel, "My.CPU-vllm", tmp_path / "out")
    assert [path.name for path in other.parent.iterdir()] == ["my_cpu_vllm-1.0-py3-none-any.whl"]
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(other) as second:
        before = {name: first.read(name) for name in first.namelist()}
        after = {name.replace("my_cpu_vllm-1.0", "vllm-1.0+cpu"): second.read(name) for name in second.namelist()}
    assert before.keys() == after.keys()
    changed = {name for name, content in before.items() if after[name] != content}
    assert changed == {
        "vllm/platforms/__init__.py",
        "vllm/cli.py",
        *(f"{INFO}/{name}" for name in ("METADATA", "RECORD", FILE)),
    }
    assert b'version("My.CPU-vllm") + "+cpu"' in after["vllm/platforms/__init__.py"]
    metadata = Metadata.from_email(after[f"{INFO}/METADATA"], validate=True)
    assert (metadata.name, str(metadata.version)) == ("My.CPU-vllm", "1.0")
    assert [str(one) for one in metadata.requires_dist or ()] == [
        'torch==2.13.0; python_version < "3"',
        'triton==3.8.0+cpu; extra == "triton"',
    ]
    assert redistribute(wheel, "My.CPU-vllm", tmp_path / "again").read_bytes() == other.read_bytes()


def test_what_pypi_checks_before_an_upload(tmp_path: Path) -> None:
    wheel = redistribute(ours(tmp_path), "vllm-x", tmp_path / "out")
    command = [sys.executable, "-m", "twine", "check", "--strict", wheel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_it_installs_from_an_index_and_is_the_cpu_platform(tmp_path: Path, installer: str) -> None:
    wheel = redistribute(ours(tmp_path), "vllm-x", tmp_path / "out")
    venv = tmp_path / "venv"
    env = uv_environment()
    subprocess.run([find_uv_bin(), "venv", "-q", "--python", sys.executable, venv], env=env, check=True)
    python = venv / "bin/python"
    with Server() as server:
        url = server.serve(f"/files/{wheel.name}", Answer(wheel.read_bytes()))
        page = Answer(f'<a href="{url}#sha256={sha256(wheel)}">{wheel.name}</a>'.encode())
        server.serve("/simple/vllm-x/", Answer(page.body, headers={"Content-Type": "text/html"}))
        command = {
            "uv": [find_uv_bin(), "pip", "install", "--no-cache", "--python", python, "--default-index"],
            "pip": [sys.executable, "-m", "pip", "--python", python, "install", "--no-cache-dir", "--index-url"],
        }[installer]
        done = subprocess.run(
            [*command, server.url("/simple"), "vllm-x==1.0"], env=env, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    asked = "import vllm.platforms as p, vllm.cli as c; print(p.vllm_version_matches_substr('cpu'), c.name)"
    assert subprocess.check_output([python, "-c", asked], env=env, text=True) == "True 1.0\n"


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "vllm @ https://e.org"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a project name"):
        check_name(name)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Requires-Dist: a @ https://e.org/a-1.tar.gz", "PyPI refuses a requirement by URL"),
        ("Requires-Dist: a b", "is not a requirement"),
        ("Requires-Python: three", "metadata are not valid"),
    ],
)
def test_metadata_that_pypi_refuses(line: str, words: str) -> None:
    with pytest.raises(WheelError, match=words):
        renamed_metadata(f"{HEAD}{line}\n".encode(), "a", "1.0")


def test_wheels_that_cannot_be_renamed(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match="where it chooses its platform"):
        redistribute(ours(tmp_path, "import importlib\n"), "a", tmp_path / "out")
    with pytest.raises(WheelError, match="not built by cpuwheels"):
        redistribute(write_good(tmp_path), "a", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
