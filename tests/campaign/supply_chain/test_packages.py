"""Attacks on the Python packages of a build: only pinned bytes are installed, and nothing runs when it is installed."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.core.errors import BuildEnvironmentError, LockedError, TorchError
from cpuwheels.environment.build_env import build_environment
from cpuwheels.environment.test_env import complete_environment
from cpuwheels.fetch.uv import site_packages
from cpuwheels.verification.serving import locks
from cpuwheels.verification.serving.locks import Needs, choose_lock, own_lock
from layout import ROOT
from sample_source import sha256
from small_sdists import list_files, write_sdist
from small_wheels import write_wheel
from torch_wheels import pinning, write_torch

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.store import Store
    from cpuwheels.environment.build_env import EnvironmentRequest
    from cpuwheels.environment.sealed_env import Environment


def environments(store: Store) -> list[str]:
    folder = store.root / "environments"
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def hostile(folder: Path, name: str, version: str) -> Path:
    return write_wheel(folder, name, version, {f"{name}/__init__.py": "hostile = True\n"})


def installed(folder: Path) -> set[str]:
    return {path.name.removesuffix(".dist-info") for path in site_packages(folder).glob("*.dist-info")}


@pytest.fixture
def wanted(request_: EnvironmentRequest, links: Path) -> EnvironmentRequest:
    return pinning(request_, write_torch(links, "2.13.0+cpu"))


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """What a source distribution writes when it is run."""
    return tmp_path / "mark"


def test_01_a_tools_wheel_with_other_bytes(
    context: BuildContext, wanted: EnvironmentRequest, tmp_path: Path, store: Store
) -> None:
    list_files(tmp_path / "index", "cmake", [hostile(tmp_path / "hostile", "cmake", "4.0.0")])
    with pytest.raises(BuildEnvironmentError, match="the build environment could not be made") as raised:
        build_environment(context, wanted)
    assert "Hash mismatch" in raised.value.output
    assert environments(store) == []


def test_02_a_lock_without_hashes(context: BuildContext, wanted: EnvironmentRequest, store: Store) -> None:
    wanted.lock.write_text("cmake==4.0.0\n")
    with pytest.raises(BuildEnvironmentError, match="the build environment could not be made") as raised:
        build_environment(context, wanted)
    assert "--require-hashes" in raised.value.output
    assert environments(store) == []


def test_03_every_lock_of_the_project_has_hashes() -> None:
    found = sorted((ROOT / "locks").rglob("*.txt"))
    assert {"run.txt", "dev.txt", "build-tools.txt", "parity.txt", "zig.txt"} <= {path.name for path in found}
    for path in found:
        text = re.sub(r"(?m)#.*$", "", path.read_text()).replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line.strip()]
        assert lines
        assert [
            line for line in lines if not re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}", line)
        ] == []


def test_04_a_newer_tool_in_an_additional_index(
    context: BuildContext, wanted: EnvironmentRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    list_files(other, "cmake", [hostile(tmp_path / "hostile", "cmake", "99.0")])
    monkeypatch.setenv("UV_EXTRA_INDEX_URL", other.as_uri())
    with pytest.raises(BuildEnvironmentError):
        build_environment(context, wanted)
    monkeypatch.setenv("UV_INDEX_STRATEGY", "unsafe-best-match")
    assert build_environment(context, wanted).tools["cmake"] == "4.0.0"


def test_05_a_wheel_of_the_same_name_in_the_index(made: Environment, tmp_path: Path, logs: Path) -> None:
    """The wheel under test is the file, whatever an index has under its name and version."""
    list_files(tmp_path / "index", "vllm", [hostile(tmp_path / "x", "vllm", v) for v in ("1.0+cpu", "99.0")])
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0+cpu", {"vllm/__init__.py": "right = True\n"}, "cmake")
    complete_environment(made, wheel, tmp_path / "run", logs)
    assert (site_packages(tmp_path / "run") / "vllm" / "__init__.py").read_text() == "right = True\n"


def test_06_a_name_that_two_indexes_have(
    made: Environment, tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first index that has a name decides, so a public index cannot outbid a private one."""
    private = tmp_path / "private"
    list_files(private, "inner", [write_wheel(tmp_path / "ours", "inner", "1.0")])
    list_files(tmp_path / "index", "inner", [hostile(tmp_path / "x", "inner", "99.0")])
    monkeypatch.setenv("UV_INDEX", private.as_uri())
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0", {"vllm/__init__.py": ""}, "inner")
    complete_environment(made, wheel, tmp_path / "run", logs)
    assert "inner-1.0" in installed(tmp_path / "run")


def test_07_another_torch_under_the_pinned_name(
    context: BuildContext, wanted: EnvironmentRequest, links: Path, store: Store
) -> None:
    other = write_torch(links, "2.13.0+cpu", header="hostile")
    with pytest.raises(TorchError, match=r"no CPU build of torch 2\.13\.0") as raised:
        build_environment(context, replace(wanted, locked=True))
    assert f"sha256:{sha256(other)}" in raised.value.output
    assert environments(store) == []


def test_08_a_torch_that_brings_more_along(
    context: BuildContext, request_: EnvironmentRequest, links: Path, store: Store
) -> None:
    write_wheel(links, "hostile", "1.0")
    wanted = pinning(request_, write_torch(links, "2.13.0+cpu", "hostile"))
    with pytest.raises(TorchError) as raised:
        build_environment(context, wanted)
    assert "it would bring hostile" in raised.value.output
    assert environments(store) == []


def test_09_a_source_distribution_in_the_place_of_torch(
    context: BuildContext, request_: EnvironmentRequest, links: Path, mark: Path, store: Store
) -> None:
    write_sdist(links, "torch", "2.13.0+cpu", mark)
    with pytest.raises(TorchError):
        build_environment(context, request_)
    assert not mark.exists()
    assert environments(store) == []


def test_10_a_source_distribution_in_the_place_of_a_tool(
    context: BuildContext, wanted: EnvironmentRequest, tmp_path: Path, mark: Path, store: Store
) -> None:
    list_files(tmp_path / "index", "cmake", [write_sdist(tmp_path / "x", "cmake", "4.0.0", mark)])
    with pytest.raises(BuildEnvironmentError):
        build_environment(context, wanted)
    assert not mark.exists()
    assert environments(store) == []


def test_11_a_requirement_of_a_commit_that_is_a_source_distribution(
    made: Environment, tmp_path: Path, logs: Path, mark: Path
) -> None:
    list_files(tmp_path / "index", "hostile", [write_sdist(tmp_path / "x", "hostile", "1.0", mark)])
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0", {"vllm/__init__.py": ""}, "hostile")
    with pytest.raises(BuildEnvironmentError):
        complete_environment(made, wheel, tmp_path / "run", logs)
    assert not mark.exists()


def test_12_a_requirement_of_a_commit_at_an_address(made: Environment, tmp_path: Path, logs: Path, mark: Path) -> None:
    sdist = write_sdist(tmp_path / "x", "hostile", "1.0", mark)
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0", {"vllm/__init__.py": ""}, f"hostile @ {sdist.as_uri()}")
    with pytest.raises(BuildEnvironmentError):
        complete_environment(made, wheel, tmp_path / "run", logs, sdists=True)
    assert not mark.exists()


def test_13_a_yanked_release(made: Environment, tmp_path: Path, logs: Path) -> None:
    page = tmp_path / "index" / "cmake" / "index.html"
    right = page.read_text()
    list_files(tmp_path / "index", "cmake", [hostile(tmp_path / "x", "cmake", "5.0")], 'data-yanked="stolen"')
    page.write_text(right + page.read_text())
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0", {"vllm/__init__.py": ""}, "cmake>=4")
    complete_environment(made, wheel, tmp_path / "run", logs)
    assert "cmake-4.0.0" in installed(tmp_path / "run")


def test_14_a_new_requirement_of_a_commit_is_told_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = build_context(tmp_path, root=tmp_path / "project")
    needs = Needs("0.32.0+cpu", ("pillow>=12", "typo-squat"), (), "3.11")
    own = own_lock(context, needs.version, needs.python)
    own.parent.mkdir(parents=True)
    own.write_text("pillow==12.1 --hash=sha256:0\n")
    monkeypatch.setattr(locks, "_resolve", lambda *_: None)
    with pytest.raises(LockedError, match="does not have typo-squat"):
        choose_lock(context, needs, tmp_path, locked=True, relock=False)
    choose_lock(context, needs, tmp_path, locked=False, relock=False)
    (note,) = context.reporter.announcements
    assert "does not have typo-squat" in note
    assert own.read_text() == "pillow==12.1 --hash=sha256:0\n"


def test_15_an_index_that_a_checkout_names(
    context: BuildContext, wanted: EnvironmentRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is run in a checkout of vLLM does not take that checkout's settings of uv."""
    made = build_environment(context, wanted)
    checkout = tmp_path / "vllm"
    checkout.mkdir()
    list_files(tmp_path / "hostile", "inner", [hostile(tmp_path / "x", "inner", "1.0")])
    place = (tmp_path / "hostile").as_uri()
    (checkout / "uv.toml").write_text(f'[pip]\nextra-index-url = ["{place}"]\n')
    (checkout / "pyproject.toml").write_text(f'[tool.uv.pip]\nextra-index-url = ["{place}"]\n')
    monkeypatch.delenv("UV_NO_CONFIG")
    monkeypatch.chdir(checkout)
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0", {"vllm/__init__.py": ""}, "inner")
    with pytest.raises(BuildEnvironmentError):
        complete_environment(made, wheel, tmp_path / "run", context.logs)
    users = tmp_path / "home" / ".config" / "uv" / "uv.toml"
    users.parent.mkdir(parents=True)
    users.write_text(f'[pip]\nextra-index-url = ["{place}"]\n')
    complete_environment(made, wheel, tmp_path / "run", context.logs)
    assert "inner-1.0" in installed(tmp_path / "run")


def test_16_code_that_pythons_of_the_user_run_first(
    made: Environment, tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sitecustomize on PYTHONPATH, usercustomize and a .pth file in the user's site-packages."""
    code = f"open({str(tmp_path / 'mark')!r}, 'a').write('run')\n"
    path = tmp_path / "path"
    path.mkdir()
    (path / "sitecustomize.py").write_text(code)
    version = f"python{made.python_version}"
    user = tmp_path / "home" / ".local" / "lib" / version / "site-packages"
    user.mkdir(parents=True)
    (user / "usercustomize.py").write_text(code)
    (user / "hostile.pth").write_text(f"import os; {code}")
    for name, value in {"PYTHONPATH": path, "PYTHONSTARTUP": path / "sitecustomize.py", "PYTHONUSERBASE": path}.items():
        monkeypatch.setenv(name, str(value))
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0", {"vllm/__init__.py": ""}, "cmake")
    python = complete_environment(made, wheel, tmp_path / "run", logs)
    from cpuwheels.core.process import run  # noqa: PLC0415

    run([python, "-c", "import vllm"], log=logs / "run.log")
    assert not (tmp_path / "mark").exists()
    subprocess.run([python, "-c", "import vllm"], check=True)
    assert (tmp_path / "mark").exists()  # so that this test would see it
