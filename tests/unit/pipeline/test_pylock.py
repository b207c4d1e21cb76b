"""The lock next to a wheel: what is in it, and that uv and pip install from it on each Python that it covers."""

from __future__ import annotations

import io
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.pylock import Pylock
from rich.console import Console
from uv import find_uv_bin

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.host import markers
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.pins import TorchPin, TorchWheel
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import BuildEnvironmentError
from cpuwheels.core.store import Store
from cpuwheels.environment.torch_index import INDEX_VARIABLES
from cpuwheels.fetch.uv import found_interpreters, uv_environment
from cpuwheels.pipeline.pylock import covered_pythons, resolve, write_lock, write_pylock
from cpuwheels.wheel.core_metadata import read_project
from cpuwheels.wheel.wheel_metadata import read_metadata
from loopback import Answer, Server
from sample_source import sha256
from small_wheels import write_wheel

PYTHONS = ("3.11", "3.12", "3.13")
TORCH = "2.13.0+cpu"
NEEDS = (
    'torch==2.13.0+cpu; platform_machine == "x86_64"',
    "helper>=1",
    'older; python_version < "3.12"',
    'elsewhere; platform_machine == "s390x"',
)

LOCK = {"lock-version": "1.0", "created-by": "test", "packages": []}

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="installs wheels for x86-64")


@dataclass
class Place:
    """Two indexes on this machine, a wheel, and the run that locks it."""

    folder: Path
    server: Server
    wheel: Path

    def context(self, **options: Any) -> BuildContext:
        """A run for which PyTorch's index is that of this machine."""
        (self.folder / "logs").mkdir(exist_ok=True)
        context = build_context(self.folder, "x86", options=BuildOptions(**options))
        context.matrix.torch["2.13.0"] = self.pinned(context)
        return context

    def pinned(self, context: BuildContext, *wheels: TorchWheel) -> TorchPin:
        return context.matrix.torch["2.13.0"].model_copy(update={"index": self.server.url("/torch"), "wheels": wheels})

    def torch(self, *pythons: str) -> None:
        tags = [f"cp{python.replace('.', '')}" for python in pythons]
        self.serve(
            "torch", "torch", *(self.write("torch", TORCH, f"{tag}-{tag}-manylinux_2_28_x86_64") for tag in tags)
        )

    def serve(self, index: str, name: str, *wheels: Path) -> None:
        links = [
            f'<a href="{self.server.serve(f"/files/{path.name}", Answer(path.read_bytes()))}#sha256={sha256(path)}">'
            f"{path.name}</a>"
            for path in wheels
        ]
        page = Answer("".join(links).encode(), headers={"Content-Type": "text/html"})
        self.server.serve(f"/{index}/{name}/", page)

    def write(self, name: str, version: str, tag: str = "py3-none-any", *needs: str) -> Path:
        return write_wheel(self.folder / "wheels", name, version, {f"{name}.py": ""}, *needs, tag=tag)

    def lock(self, context: BuildContext) -> Path | None:
        return write_pylock(context, self.wheel)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with Server() as server:
        for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS", *INDEX_VARIABLES):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("UV_DEFAULT_INDEX", server.url("/pypi"))
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
        # A server that has no torch would be asked again and again.
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")
        wheel = write_wheel(tmp_path / "dist", "demo", "1.0+cpu", {"demo.py": ""}, *NEEDS, python="<3.15,>=3.11")
        made = Place(tmp_path, server, wheel)
        for name in ("helper", "older", "torchaudio", "torchcodec", "torchvision"):
            made.serve("pypi", name, made.write(name, "1.5"))
        yield made


def pyenv_interpreters() -> dict[str, Path]:
    """Return the interpreters that pyenv has, which need not be on PATH."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return {version: path for version in PYTHONS for path in versions.glob(f"{version}.*/bin/python{version}")}


def packages(lock: Path) -> dict[str, dict[str, Any]]:
    return {package["name"]: package for package in tomllib.loads(lock.read_text())["packages"]}


def test_everything_is_in_it_with_its_hash(place: Place) -> None:
    place.torch(*PYTHONS)
    lock = place.lock(place.context())
    assert lock == place.wheel.with_name("pylock.toml")
    data = tomllib.loads(lock.read_text())
    Pylock.from_dict(data).validate()
    assert data["requires-python"] == ">=3.11,<3.14"
    assert data["environments"] == ["sys_platform == 'linux' and platform_machine == 'x86_64'"]
    found = packages(lock)
    assert set(found) == {"demo", "helper", "older", "torch"}
    assert [len(found[name]["wheels"]) for name in ("demo", "helper", "torch")] == [1, 1, 3]
    (own,) = found["demo"]["wheels"]
    assert (own["path"], own["hashes"]["sha256"]) == (place.wheel.name, sha256(place.wheel))
    assert all(wheel["hashes"]["sha256"] for package in found.values() for wheel in package["wheels"])
    assert "file://" not in lock.read_text()


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("python", PYTHONS)
def test_each_python_installs_from_it(place: Place, python: str, installer: str) -> None:
    interpreters = pyenv_interpreters() | found_interpreters(PYTHONS)
    if python not in interpreters:
        pytest.skip(f"there is no Python {python} on this machine")
    place.torch(*PYTHONS)
    lock = place.lock(place.context())
    assert lock is not None
    venv = place.folder / "venv"
    tools = uv_environment()
    subprocess.run([find_uv_bin(), "venv", "-q", "--python", interpreters[python], venv], env=tools, check=True)
    commands = {
        "uv": [find_uv_bin(), "pip", "install", "--python", venv / "bin/python", "-r", lock],
        # Of a Python that has pip, for one that has none.
        "pip": [sys.executable, "-m", "pip", "--python", venv / "bin/python", "install", "--no-cache-dir", "-r", lock],
    }
    command = commands[installer]
    done = subprocess.run(command, env=tools, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = {path.name.partition("-")[0] for path in venv.glob("lib/python3*/site-packages/*.dist-info")}
    assert names == {"demo", "helper", "torch"} | ({"older"} if python == "3.11" else set())


def test_what_the_wheel_of_this_platform_alone_requires_is_in_it(place: Place) -> None:
    place.torch("3.11", "3.12")
    # uv reads the requirements of the one for i686, as of intel-openmp 2024.2.1.
    place.serve(
        "pypi",
        "helper",
        place.write("helper", "1.5", "py3-none-manylinux1_i686"),
        place.write("helper", "1.5", "py3-none-manylinux1_x86_64", "below==2", 'old; python_version < "3.12"'),
    )
    place.serve("pypi", "below", place.write("below", "2", "py3-none-manylinux1_i686"), place.write("below", "3"))
    context = place.context()
    assert place.lock(context) is None
    assert "cannot be resolved" in context.reporter.announcements[0]
    place.serve(
        "pypi",
        "below",
        place.write("below", "2", "py3-none-manylinux1_i686"),
        place.write("below", "2", "py3-none-manylinux1_x86_64", "bottom"),
    )
    for name in ("bottom", "old"):
        place.serve("pypi", name, place.write(name, "1"))
    lock = place.lock(place.context())
    assert lock is not None
    found = packages(lock)
    assert set(found) == {"below", "bottom", "demo", "helper", "old", "older", "torch"}
    for python, names in (("3.11", {"below", "bottom", "old"}), ("3.12", {"below", "bottom"})):
        about = markers(place.context().target, python)
        named = {
            name for name, each in found.items() if Marker(each.get("marker", "os_name == 'posix'")).evaluate(about)
        }
        assert named & {"below", "bottom", "old"} == names


def test_only_pythons_that_have_a_torch_are_in_it(place: Place) -> None:
    place.torch("3.11", "3.13")
    lock = place.lock(place.context())
    assert lock is not None
    assert tomllib.loads(lock.read_text())["requires-python"] == ">=3.11,<3.12"


def test_a_second_wheel_needs_no_network(place: Place) -> None:
    place.torch(*PYTHONS)
    first = place.lock(place.context())
    assert first is not None
    before = packages(first)
    place.server.serve("/torch/torch/", Answer(status=500))
    place.wheel.write_bytes(place.wheel.read_bytes() + b" ")
    second = place.lock(place.context(locked=True))
    assert second is not None
    after = packages(second)
    assert after.pop("demo")["wheels"][0]["hashes"]["sha256"] == sha256(place.wheel)
    assert after == {name: package for name, package in before.items() if name != "demo"}


def test_it_is_resolved_from_what_a_wheel_will_declare(place: Place) -> None:
    place.torch(*PYTHONS)
    project = read_project(read_metadata(place.wheel).as_bytes())
    resolved = resolve(place.context(), project)
    asked = len(place.server.asked)
    lock = place.lock(place.context())
    assert resolved is not None
    assert lock is not None
    assert len(place.server.asked) == asked, "the wheel's own metadata name it otherwise"
    assert packages(resolved) == {name: each for name, each in packages(lock).items() if name != "demo"}


@pytest.mark.parametrize("refusal", [None, BuildEnvironmentError("no place has it")])
def test_what_was_resolved_meanwhile_is_taken(place: Place, refusal: BuildEnvironmentError | None) -> None:
    place.torch(*PYTHONS)
    context = place.context()

    def meanwhile() -> Path:
        if refusal:
            raise refusal
        write_lock(LOCK, place.folder / "resolved.toml")
        return place.folder / "resolved.toml"

    lock = write_pylock(context, place.wheel, meanwhile)
    assert place.server.asked == []
    if refusal:
        assert (lock, context.reporter.announcements) == (
            None,
            ["the wheel has no pylock.toml next to it: no place has it"],
        )
    else:
        assert lock is not None
        assert list(packages(lock)) == ["demo"]


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ([], "no place lists a torch 2.13.0+cpu for x86_64"),
        (["torch>=2.13.0"], "does not require one version of torch"),
        (["torch==2.13.0", "a b"], "requirement"),
    ],
)
def test_that_there_is_none_is_announced(place: Place, needs: list[str], words: str) -> None:
    place.torch()
    if needs:
        place.wheel = write_wheel(place.folder / "dist", "demo", "1.0+cpu", {}, *needs)
    context = place.context()
    assert place.lock(context) is None
    (note,) = context.reporter.announcements
    assert note.startswith("the wheel has no pylock.toml next to it: ")
    assert words in note
    assert not place.wheel.with_name("pylock.toml").exists()


def test_a_locked_run_asks_for_nothing_and_says_what_does(place: Place) -> None:
    place.torch(*PYTHONS)
    context = place.context(locked=True)
    said = io.StringIO()
    context = replace(context, reporter=Reporter("x86", Console(file=said, width=1000)))
    assert place.lock(context) is None
    assert place.server.asked == []
    assert context.reporter.announcements == [], "the record of the build would keep it after there is a lock"
    assert "`nox -s pylock -- x86 WHEEL`" in said.getvalue()
    assert not place.wheel.with_name("pylock.toml").exists()


def test_where_one_place_is_silent_the_next_is_asked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.torch("3.11")
    monkeypatch.setenv("UV_INDEX", place.server.url("/broken"))
    place.server.serve("/broken/torch/", Answer(status=500))
    lock = place.lock(place.context())
    assert lock is not None
    assert "torch" in packages(lock)
    place.server.serve("/torch/torch/", Answer(status=500))
    context = replace(place.context(), store=Store(place.folder / "empty"))
    assert place.lock(context) is None
    (note,) = context.reporter.announcements
    assert "/broken" in note
    assert "500" in note


def test_a_package_that_cannot_be_had_is_announced(place: Place) -> None:
    place.torch(*PYTHONS)
    place.server.serve("/pypi/helper/", Answer(status=404))
    context = place.context()
    assert place.lock(context) is None
    assert "cannot be resolved" in context.reporter.announcements[0]


def test_a_torch_of_a_folder_is_that_of_the_index_if_it_is_pinned(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = place.write("torch", TORCH, "cp311-cp311-manylinux_2_28_x86_64")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    context = place.context()
    assert place.lock(context) is None
    assert "not one that matrix.yaml pins" in context.reporter.announcements[0]
    pin = place.pinned(context, TorchWheel(python="cp311", machine="x86_64", sha256=sha256(wheel)))
    context.matrix.torch["2.13.0"] = pin
    lock = place.lock(context)
    assert lock is not None
    (torch,) = packages(lock)["torch"]["wheels"]
    assert torch["url"] == f"{pin.index}/torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("names", "pythons"),
    [
        (["cp311-cp311-manylinux_2_28_x86_64", "cp312-cp312-manylinux_2_28_x86_64"], ["3.11", "3.12"]),
        (["cp312-cp312-manylinux_2_28_x86_64", "cp314-cp314-manylinux_2_28_x86_64"], ["3.12"]),
        (["cp311-cp311-manylinux_2_28_aarch64"], []),
        (["py3-none-any"], ["3.11", "3.12", "3.13"]),
    ],
)
def test_pythons_without_a_gap(names: list[str], pythons: list[str]) -> None:
    files = [f"torch-{TORCH}-{name}.whl" for name in names] + ["torch-2.12.0+cpu-py3-none-any.whl", "torch.whl"]
    assert covered_pythons(files, TORCH, "x86_64", (*PYTHONS, "3.14"), "<3.14,>=3.11") == pythons


def test_what_is_no_lock_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(BuildEnvironmentError, match="the lock is not valid"):
        write_lock({"lock-version": "1.0"}, tmp_path / "pylock.toml")
    assert list(tmp_path.iterdir()) == []
