"""A wheel and what the cases need, in an environment with torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.errors import BuildEnvironmentError, UnusableWheelError
from cpuwheels.environment.build_env import EnvironmentRequest
from cpuwheels.environment.sealed_env import Environment
from cpuwheels.environment.test_env import layered_environment
from cpuwheels.environment.wheel_install import install_wheel
from small_wheels import write_wheel


@pytest.fixture
def python(made: Environment, logs: Path, tmp_path: Path) -> Path:
    return layered_environment(made, tmp_path / "run", logs)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with a requirement that is nowhere."""
    return write_wheel(tmp_path / "wheels", "vllm", "1.0", {"vllm/__init__.py": ""}, "nowhere")


def installed(site: Path) -> set[str]:
    return {path.name.removesuffix(".dist-info") for path in site.glob("*.dist-info")}


def test_the_wheel_is_installed_without_its_requirements_and_with_the_cases_own(
    python: Path, wheel: Path, request_: EnvironmentRequest, logs: Path, tmp_path: Path
) -> None:
    site = install_wheel(wheel, python, request_.lock, logs)
    assert site.is_relative_to(tmp_path / "run")
    assert installed(site) == {"vllm-1.0", "cmake-4.0.0"}


def test_where_the_cases_needs_are_there_nothing_else_is_installed(python: Path, wheel: Path, logs: Path) -> None:
    assert installed(install_wheel(wheel, python, None, logs)) == {"vllm-1.0"}


def test_what_it_unpacks_is_kept_for_other_wheels(python: Path, wheel: Path, logs: Path, tmp_path: Path) -> None:
    site = install_wheel(wheel, python, None, logs, tmp_path / "kept")
    assert [path for path in (tmp_path / "kept").iterdir() if path.samefile(site / "vllm/__init__.py")]


@pytest.mark.parametrize("lock", ["cmake==4.0.0\n", f"cmake==4.0.0 --hash=sha256:{'0' * 64}\n", "nowhere==1\n"])
def test_only_what_is_pinned_by_content_is_installed(
    python: Path, wheel: Path, logs: Path, tmp_path: Path, lock: str
) -> None:
    (tmp_path / "lock.txt").write_text(lock)
    with pytest.raises(BuildEnvironmentError, match="what the wheel is tested with cannot be installed"):
        install_wheel(wheel, python, tmp_path / "lock.txt", logs)


def test_a_wheel_that_no_installer_takes_is_the_users_fault(python: Path, logs: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-1.0-py3-none-any.whl"
    wheel.write_text("no wheel")
    with pytest.raises(UnusableWheelError, match=r"vllm-1\.0-py3-none-any\.whl cannot be installed"):
        install_wheel(wheel, python, None, logs)
