from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import BuildEnvironmentError, CommandError
from cpuwheels.environment.debian_root import DebianRoot
from cpuwheels.environment.test_env import complete_environment, layered_environment, separate_environment
from cpuwheels.fetch.uv import install_alone, uv_environment
from small_sdists import list_files, write_sdist
from small_wheels import write_wheel

if TYPE_CHECKING:
    from cpuwheels.environment.build_env import EnvironmentRequest
    from cpuwheels.environment.sealed_env import Environment


def test_uvs_own_settings_reach_it_but_find_links_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UV_DEFAULT_INDEX", "UV_FIND_LINKS", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "https://packages.invalid")
    found = uv_environment()
    assert found["UV_DEFAULT_INDEX"] == "https://packages.invalid"
    assert not {"UV_FIND_LINKS", "PIP_FIND_LINKS"} & found.keys()


def test_the_runtime_environment_has_the_same_torch(
    made: Environment, request_: EnvironmentRequest, logs: Path, tmp_path: Path
) -> None:
    python = separate_environment(made, tmp_path / "run", request_.lock, logs)
    (version,) = (tmp_path / "run").glob("lib/python3*/site-packages/torch-*.dist-info")
    assert version.name == "torch-2.13.0+cpu.dist-info"
    assert python == tmp_path / "run" / "bin" / "python"


def test_bytecode_is_made_once_and_used_by_both(
    made: Environment, request_: EnvironmentRequest, logs: Path, tmp_path: Path
) -> None:
    (bytecode,) = (made.site_packages / "torch" / "__pycache__").iterdir()
    assert int.from_bytes(bytecode.read_bytes()[4:8], "little") == 0b11  # PEP 552: by hash, and checked
    separate_environment(made, tmp_path / "run", request_.lock, logs)
    (same,) = (tmp_path / "run").glob("lib/python3*/site-packages/torch/__pycache__/*.pyc")
    assert same.samefile(bytecode)


def test_a_runtime_environment_that_cannot_be_made_is_told(
    made: Environment, request_: EnvironmentRequest, logs: Path, tmp_path: Path
) -> None:
    request_.lock.write_text("ninja==9 --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(BuildEnvironmentError, match="test the wheel in"):
        separate_environment(made, tmp_path / "run", request_.lock, logs)


def test_a_layer_finds_torch_in_the_build_environment_and_holds_only_what_is_installed_into_it(
    made: Environment, logs: Path, tmp_path: Path
) -> None:
    before = sorted(made.site_packages.iterdir())
    python = layered_environment(made, tmp_path / "run", logs)
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0", {"vllm/__init__.py": ""})
    install_alone(wheel, python, logs / "log")
    ask = "import torch, vllm; print(torch.__file__, vllm.__file__, sep='\\n')"
    found = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.splitlines()
    assert found[0].startswith(f"{made.site_packages}/torch/")
    assert found[1].startswith(f"{tmp_path / 'run'}/")
    assert sorted(made.site_packages.iterdir()) == before


def test_a_complete_environment_has_what_the_wheel_requires_and_the_same_torch(
    made: Environment, logs: Path, tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0+cpu", {"vllm/__init__.py": ""}, "torch==2.13.0", "cmake>=4")
    complete_environment(made, wheel, tmp_path / "run", logs)
    installed = {path.name for path in (tmp_path / "run").glob("lib/python3*/site-packages/*.dist-info")}
    assert installed >= {"vllm-1.0+cpu.dist-info", "torch-2.13.0+cpu.dist-info", "cmake-4.0.0.dist-info"}


def test_a_source_distribution_is_installed_only_if_that_is_allowed(
    made: Environment, logs: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    sdist = write_sdist(tmp_path / "sdists", "hostile", "1.0", mark)
    list_files(tmp_path / "index", "hostile", [sdist])
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0+cpu", {"vllm/__init__.py": ""}, "hostile")
    with pytest.raises(BuildEnvironmentError, match="test the wheel in") as raised:
        complete_environment(made, wheel, tmp_path / "run", logs)
    assert "--allow-sdists" in raised.value.next_step
    assert not mark.exists()
    complete_environment(made, wheel, tmp_path / "run", logs, sdists=True)
    assert mark.exists()


@pytest.mark.parametrize("sdists", [False, True])
def test_nothing_is_installed_from_an_address_that_the_wheel_names(
    made: Environment, logs: Path, tmp_path: Path, *, sdists: bool
) -> None:
    mark = tmp_path / "mark"
    sdist = write_sdist(tmp_path / "sdists", "hostile", "1.0", mark)
    need = f"hostile @ {sdist.as_uri()}"
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0+cpu", {"vllm/__init__.py": ""}, need)
    with pytest.raises(BuildEnvironmentError, match="test the wheel in"):
        complete_environment(made, wheel, tmp_path / "run", logs, sdists=sdists)
    assert not mark.exists()


def test_what_a_wheel_requires_and_is_nowhere_is_told(made: Environment, logs: Path, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0+cpu", {"vllm/__init__.py": ""}, "nowhere")
    with pytest.raises(BuildEnvironmentError, match="test the wheel in") as raised:
        complete_environment(made, wheel, tmp_path / "run", logs)
    assert "nowhere" in raised.value.output


def test_nothing_of_a_wheel_that_is_tried_stays_in_the_cache_of_the_user(
    made: Environment, logs: Path, tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0", {"vllm/__init__.py": ""})
    complete_environment(made, wheel, tmp_path / "run", logs)
    (file,) = (tmp_path / "run").glob("lib/python3*/site-packages/vllm/__init__.py")
    assert file.stat().st_nlink == 1
    assert not [path for path in (tmp_path / "uv").rglob("*") if "vllm" in path.name]
    assert [path.name for path in (tmp_path / "run").iterdir() if path.name.startswith(".uv")] == []


def test_what_is_kept_serves_several_environments(made: Environment, logs: Path, tmp_path: Path) -> None:
    wheel, kept = write_wheel(tmp_path / "more", "vllm", "1.0", {"vllm/__init__.py": ""}), tmp_path / "kept"
    files = []
    for name in ("one", "two"):
        complete_environment(made, wheel, tmp_path / name, logs, kept)
        files.extend((tmp_path / name).glob("lib/python3*/site-packages/vllm/__init__.py"))
    assert files[0].samefile(files[1])
    assert [path for path in kept.iterdir() if path.samefile(files[0])]


def test_a_layer_that_cannot_be_made_is_told(
    made: Environment, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpuwheels.environment.test_env.run_uv", _fails)
    with pytest.raises(BuildEnvironmentError, match="test the wheel in") as raised:
        layered_environment(made, tmp_path / "run", logs)
    assert raised.value.output == "error: the moon"


def _fails(*_: object) -> None:
    raise CommandError("uv failed", output="error: the moon")


@pytest.fixture
def debian(made: Environment, tmp_path: Path) -> Environment:
    """A build environment with Debian's torch, whose root makes environments with this machine's Python."""
    packages = tmp_path / "root" / "usr/lib/python3/dist-packages"
    for name in ("torch/__init__.py", "torchgen/__init__.py", "functorch/__init__.py"):
        (packages / name).parent.mkdir(parents=True)
        (packages / name).write_text("")
    about = packages / "torch-2.14.1+debian.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.14.1+debian\nRequires-Dist: cmake\n"
    )
    (about / "INSTALLER").write_text("debian\n")
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    loader = tmp_path / "root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    loader.parent.mkdir()
    loader.write_text('#!/bin/bash\nwhile [ "$1" != --argv0 ]; do shift; done\nexec -a "$2" "${@:3}"\n')
    loader.chmod(0o755)
    root = DebianRoot(tmp_path / "root", python, "2.14.1+debian")
    return replace(made, torch_version="2.14.1", torch_alternate=True, debian=root)


def test_debians_torch_takes_the_place_of_the_one_that_a_wheel_requires(
    debian: Environment, logs: Path, tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path / "more", "vllm", "1.0+cpu", {"vllm/__init__.py": ""}, "torch==2.14.0", "cmake>=4")
    python = complete_environment(debian, wheel, tmp_path / "run", logs)
    installed = {path.name for path in (tmp_path / "run").glob("lib/python3*/site-packages/*.dist-info")}
    assert installed >= {"vllm-1.0+cpu.dist-info", "torch-2.14.1+debian.dist-info", "cmake-4.0.0.dist-info"}
    ask = "import torch, vllm, importlib.metadata as m; print(m.version('torch'))"
    assert subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout == "2.14.1+debian\n"
    assert sorted(path.name for path in debian.debian.packages.iterdir()) == [  # type: ignore[union-attr]
        *("functorch", "torch", "torch-2.14.1+debian.dist-info", "torchgen")
    ]


def test_locked_packages_lie_next_to_debians_torch(
    debian: Environment, request_: EnvironmentRequest, logs: Path, tmp_path: Path
) -> None:
    separate_environment(debian, tmp_path / "run", request_.lock, logs)
    (site,) = (tmp_path / "run").glob("lib/python3*/site-packages")
    assert {path.name for path in site.iterdir()} >= {"torch", "torch-2.14.1+debian.dist-info", "cmake-4.0.0.dist-info"}
    assert (site / "torch").is_symlink()
    assert not (site / "torch" / "__pycache__").exists()  # the root is the store's


def test_a_layer_with_debians_torch_finds_the_whole_root(debian: Environment, logs: Path, tmp_path: Path) -> None:
    layered_environment(debian, tmp_path / "run", logs)
    assert "include-system-site-packages = true\n" in (tmp_path / "run" / "pyvenv.cfg").read_text()
