"""The commands that install the wheel in ``dist/``, run as shown: with the real torch and everything else from PyPI.

The first run fills a cache of uv in the tests' stores, about 2 GB. A torch wheel that a folder of this machine has
(find-links of uv or pip) is served as PyTorch's index; without one that index itself is asked. Where the wheel was
built against Debian's torch because neither has one, a small wheel of that name is served: the command has to choose
it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from uv import find_uv_bin

from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.store import default_root
from cpuwheels.environment.torch_index import cuda_of, offered_files, pip_configs, torch_offers
from cpuwheels.fetch.uv import found_interpreters, site_packages
from cpuwheels.index.bucket import Folder
from cpuwheels.index.publish_wheel import publish_wheel
from cpuwheels.wheel.install_commands import file_command, uv_command
from install_web import EXAMPLE, ROOT, Web, installed, new_venv, offer_torch, reached, with_newest_pip
from small_wheels import write_wheel

RELEASE, TORCH = "0.33.0+cpu", "2.14.0+cpu"
FOLDER = ROOT / "dist" / "x86" / RELEASE.partition("+")[0]
# What the wheel and its requirements want of PyTorch's index besides; no test uses them.
OTHERS = {"torchaudio": "2.14.0+cpu", "torchcodec": "0.14.0+cpu", "torchvision": "0.29.0+cpu", "triton": "3.8.0"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = sorted(FOLDER.glob("vllm-*.whl"))
    if len(found) != 1:
        pytest.fail(f"{FOLDER} holds {len(found)} wheels, expected the one that 'nox -s build-x86' leaves there")
    return found[0]


def alternates(wheel: Path) -> str:
    """Return what the wheel was built with in place of the matrix's first choices, as its record has it."""
    return " ".join(json.loads((wheel.parent / "record.json").read_text())["alternates"])


def torch_here() -> tuple[Path, Path | None] | None:
    """Return the torch wheel that a folder of this machine has, and an interpreter for it."""
    matrix = load_matrix(ROOT)
    offers = torch_offers(matrix.torch[TORCH.partition("+")[0]], os.environ, pip_configs(os.environ))
    folders = [offer for offer in offers if offer.kind == "find-links" and "://" not in offer.location]
    for version, python in found_interpreters(matrix.python).items():
        start = f"torch-{TORCH}-cp{version.replace('.', '')}-"
        for offer in folders:
            for name in offered_files(offer):
                if name.startswith(start) and name.endswith(f"_{matrix.target('x86').machine}.whl"):
                    return Path(offer.location).expanduser().resolve() / name, python
    return None


@pytest.fixture(scope="module")
def place(wheel: Path, nginx_root: Path) -> Iterator[tuple[Web, Path]]:
    """The web with the wheel published, and an environment; on the cache's file system, so that uv can make links."""
    stores = default_root() / "tests"
    cache = {"UV_CACHE_DIR": str(stores / "uv-cache")}
    # The wheel may have been built anew under its name.
    subprocess.run([find_uv_bin(), "cache", "clean", "--quiet", "vllm"], env=os.environ | cache, check=True)
    with tempfile.TemporaryDirectory(prefix="installing-", dir=stores) as name:
        folder, pytorch, python = Path(name), None, None
        alone = shutil.copy(wheel, folder)  # its reports are of no interest here
        publish_wheel(Folder(folder / "index"), Path(alone), load_matrix(ROOT))
        found = torch_here()
        if found is None and "torch" in alternates(wheel):
            small = {"torch/__init__.py": "", "torch/version.py": "cuda = None\n"}
            found = write_wheel(folder / "torch", "torch", TORCH, small), None
        if found:
            pytorch, python = folder / "pytorch", found[1]
            offer_torch(pytorch, found[0])
            for project, version in OTHERS.items():
                offer_torch(pytorch, write_wheel(folder / "others", project, version))
        with reached(nginx_root, folder, index=folder / "index", pytorch=pytorch, caches=cache) as web:
            yield web, new_venv(folder / "venv", python)


@pytest.mark.parametrize("source", ["index", "file"])
def test_uv_installs_it_with_the_real_torch(place: tuple[Web, Path], wheel: Path, source: str) -> None:
    web, venv = place
    view = f"https://{EXAMPLE}/{RELEASE.partition('+')[0]}/cpu"
    command = uv_command(view, RELEASE) if source == "index" else file_command(str(wheel.relative_to(ROOT)))
    done = web.run(command, venv, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = installed(venv)
    assert (found["vllm"], found["torch"]) == (RELEASE, TORCH)
    assert cuda_of(site_packages(venv) / "torch") is None
    assert (site_packages(venv) / "vllm" / "_C.abi3.so").is_file()


@pytest.mark.parametrize("program", ["uv", "pip"])
def test_its_lock_installs_it(place: tuple[Web, Path], wheel: Path, program: str) -> None:
    lock = wheel.with_name("pylock.toml")
    if not lock.exists():
        pytest.skip(f"the wheel has no {lock.name}: its torch was {alternates(wheel)}")
    web, first = place
    venv = with_newest_pip(new_venv(first.with_name(program), first / "bin" / "python"))
    command = "uv pip" if program == "uv" else "pip"
    done = web.run(f"{command} install -r {lock.relative_to(ROOT)}", venv, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = installed(venv)
    assert (found["vllm"], found["torch"]) == (RELEASE, TORCH)
