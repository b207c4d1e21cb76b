"""This project's own wheel: built twice, installed where no checkout is, and used there to build the tiny project."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from release_build import build, clone, require_identical
from release_install import install, smoke_test, use_with_pipx, use_with_uvx
from release_provenance import try_signing

from cpuwheels.core.digests import tree_digest
from cpuwheels.core.errors import CheckoutError, ParityError, UnusableWheelError
from layout import ROOT
from tiny_project import Tiny, commit_all


@dataclasses.dataclass(frozen=True)
class Installed:
    """This project's wheel in an environment of its own.

    Attributes:
        command: The program.
        data: The project's files in it.
        version: Of the wheel.
    """

    command: Path
    data: Path
    version: str

    def run(self, cwd: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder; no variable leads to the checkout."""
        hidden = ("PYTHONPATH", "VIRTUAL_ENV", "CPUWHEELS_CACHE")
        env = {name: value for name, value in os.environ.items() if name not in hidden}
        line = [str(word) for word in (self.command, *words)]
        return subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of this checkout as they are now, committed."""
    folder = tmp_path_factory.mktemp("sources") / "project"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    commit_all(folder, "all", tag="v9.8.7")
    return folder


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("release")
    clone(sources, base / "clone")
    return build(base / "clone", base / "out")[1]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed") / "venv"
    command = install(wheel, folder, ROOT / "locks" / "run.txt")
    (data,) = folder.glob("lib/python*/site-packages/cpuwheels/data")
    return Installed(command, data, wheel.name.split("-")[1])


def test_the_tag_is_the_version_and_the_wheel_is_for_every_machine(wheel: Path) -> None:
    assert wheel.name == "cpuwheels-9.8.7-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.startswith("cpuwheels/bin/")]
    assert not [name for name in names if "/tests/" in name and not name.startswith("cpuwheels/data/tests/parity/")]


def test_another_clone_with_another_umask_gives_the_same_bytes(sources: Path, wheel: Path, tmp_path: Path) -> None:
    clone(sources, tmp_path / "elsewhere")
    second = build(tmp_path / "elsewhere", tmp_path / "out", 0o077)
    (first,) = wheel.parent.glob("*.tar.gz")
    require_identical((first, wheel), second)


def test_the_smoke_test(sources: Path, wheel: Path, tmp_path: Path) -> None:
    smoke_test(wheel, "9.8.7", sources, tmp_path)


@pytest.mark.parametrize("use_with", [use_with_uvx, use_with_pipx])
def test_people_install_it(wheel: Path, tmp_path: Path, use_with: Callable[[Path, str, Path], None]) -> None:
    use_with(wheel, "9.8.7", tmp_path / "tool")


def test_it_is_signed(sources: Path, wheel: Path, tmp_path: Path) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    try_signing(sources, [sdist, wheel], "9.8.7", tmp_path / "signed")


def test_commands_work_in_an_empty_folder(installed: Installed, tmp_path: Path) -> None:
    assert installed.run(tmp_path, "--version").stdout == f"cpuwheels {installed.version}\n"
    listed = installed.run(tmp_path, "matrix")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert {line.partition(":")[0] for line in listed.stdout.splitlines()} >= {"x86", "arm", "s390x"}
    report = json.loads(installed.run(tmp_path, "doctor", "x86", "--json").stdout)
    assert report["target"] == "x86"
    assert {"machine", "uv", "cache"} <= {check["name"] for check in report["checks"] if check["status"] == "ok"}
    missing = installed.run(tmp_path, "parity", "x86")
    assert missing.returncode == UnusableWheelError.exit_code
    assert "cpuwheels build x86" in missing.stderr
    assert installed.run(tmp_path, "lock").returncode == CheckoutError.exit_code
    assert installed.run(tmp_path, "build", "x86", "--source", "9.9", "-q").stdout == ""


def test_the_tiny_project_is_built_from_the_same_kernels(installed: Installed, tiny: Tiny, tmp_path: Path) -> None:
    """The checkout's build, with the same matrix, fills the store; the installed package finds its kernels there.

    Both use this project's patches, which are for vLLM, so the tiny project gets its own one beforehand.
    """
    tree = shutil.copytree(tiny.tree, tmp_path / "tree")
    subprocess.run(
        ["git", "apply", "--unidiff-zero", tiny.root / "patches" / "0001-cpuinfo.patch"], cwd=tree, check=True
    )
    ours, theirs = tmp_path / "checkout", tmp_path / "installed"
    for folder in (ours, theirs):
        folder.mkdir()
        shutil.copy(tiny.root / "matrix.yaml", folder)
    words = ["--cache", tiny.cache, "build", "x86", "--source", tree]
    first = subprocess.run(
        [sys.executable, "-m", "cpuwheels", *words], cwd=ours, capture_output=True, text=True, check=False
    )
    assert first.returncode == 0, first.stderr
    before = tree_digest(installed.data)
    second = installed.run(theirs, *words, "-v")
    assert second.returncode == 0, second.stderr
    assert "are in the store; nothing to compile" in second.stderr
    assert "store: making kernels/" not in second.stderr
    assert f"configuration: {theirs / 'matrix.yaml'}" in second.stderr
    (wheel,) = theirs.glob("dist/x86/*/*.whl")
    assert second.stdout == f"{wheel}\n"
    assert modules(wheel) == modules(Path(first.stdout.strip()))
    assert tree_digest(installed.data) == before, "a build writes nothing into the package"

    quiet = installed.run(theirs, *words, "-q")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, f"{wheel}\n", "")

    # The kernel tests are found: they have no case for the tiny project's operators.
    parity = installed.run(theirs, "--cache", tiny.cache, "parity", "x86", "--level", "smoke")
    assert parity.returncode == ParityError.exit_code, parity.stderr
    assert "count_words" in parity.stderr
    assert tree_digest(installed.data) == before, "neither do the kernel tests"


def modules(wheel: Path) -> dict[str, bytes]:
    """The shared libraries of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist() if ".so" in name}
    assert found
    return found
