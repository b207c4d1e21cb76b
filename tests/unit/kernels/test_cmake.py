"""How CMake is started, with a program of its name that answers with what it was given."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cpuwheels.core.errors import ConfigureError
from cpuwheels.environment.sealed_env import Environment
from cpuwheels.kernels.cmake import run_cmake
from cpuwheels.kernels.launchers import Launchers
from kernel_request import environment

CMAKE = f"""\
#!{sys.executable}
import json, os, sys
given = {{"arguments": sys.argv[1:], "variables": dict(os.environ)}}
with open(os.environ["GIVEN"], "w") as stream:
    json.dump(given, stream)
print("CMake Error: not today")
sys.exit(int(os.environ["STATUS"]))
"""


@pytest.fixture
def made(tmp_path: Path) -> Environment:
    """An environment with that CMake."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cmake").write_text(CMAKE)
    (tmp_path / "bin" / "cmake").chmod(0o755)
    return environment(python=tmp_path / "bin" / "python")


def configure(made: Environment, base: Path, status: int = 0, launchers: Launchers | None = None) -> dict[str, object]:
    """Configure a project; return the arguments and variables that CMake got."""
    env = {"GIVEN": str(base / "given.json"), "STATUS": str(status), "CMAKE_C_COMPILER_LAUNCHER": "another"}
    run_cmake(
        "the project",
        made,
        base / "source",
        base / "build",
        base / "cache.cmake",
        env=env,
        launchers=launchers or Launchers(),
        log=base / "log",
        next_step="sleep",
    )
    found: dict[str, object] = json.loads((base / "given.json").read_text())
    return found


def test_the_project_is_configured_for_ninja_with_the_settings_of_a_file(made: Environment, tmp_path: Path) -> None:
    arguments = configure(made, tmp_path)["arguments"]
    assert arguments == [
        *("-S", f"{tmp_path}/source", "-B", f"{tmp_path}/build", "-G", "Ninja"),
        *("-C", f"{tmp_path}/cache.cmake", "-Wno-dev", "--no-warn-unused-cli"),
    ]


def test_builds_that_it_starts_itself_have_the_launchers_too(made: Environment, tmp_path: Path) -> None:
    launchers = Launchers(["/memgate", "--", "/ccache"], ["/memgate", "--"])
    variables = configure(made, tmp_path, launchers=launchers)["variables"]
    assert isinstance(variables, dict)
    assert launchers.variables().items() <= variables.items()
    assert set(variables) <= {"GIVEN", "STATUS", "LC_CTYPE", *launchers.variables()}


def test_where_cmake_stops_its_words_are_in_the_message(made: Environment, tmp_path: Path) -> None:
    with pytest.raises(ConfigureError, match="CMake could not configure the project") as raised:
        configure(made, tmp_path, status=1)
    assert raised.value.output == "CMake Error: not today"
    assert raised.value.where == str(tmp_path / "source")
    assert raised.value.next_step == "sleep"
