"""A build that nobody waits for yet."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from cpuwheels.bisect.background_build import LOG, build_in_background
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.errors import CommandError
from cpuwheels.core.process import end_command_of
from cpuwheels.core.step_limits import LIMITS, step_limit

PROGRAM = f"""#!{sys.executable} -I
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
(here / "seen.part").write_text(json.dumps([sys.argv[1:], os.nice(0), dict(os.environ), os.getcwd(), os.getpid()]))
(here / "seen.part").replace(here / "seen.json")
sys.exit(3) if "fail" in sys.argv else time.sleep(120 if "wait" in sys.argv else 0)
"""


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Folders of a build; what runs it is a program that notes how it was started."""
    program = tmp_path / "program" / "python"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return Paths(tmp_path / "root", tmp_path / "cache", tmp_path / "dist", tmp_path / "other.yaml")


def seen(tmp_path: Path) -> list:
    return json.loads((tmp_path / "program" / "seen.json").read_text())


def test_it_is_the_same_build_at_the_lowest_priority(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "s")
    monkeypatch.setenv("CPUWHEELS_VLLM_REPO", "https://me:pw@vllm.invalid")
    monkeypatch.chdir(tmp_path)
    options = BuildOptions(source="c" * 40, memory="3G", locked=True, allow_unsandboxed=True)
    build_in_background(paths, "x86", options)
    arguments, nice, environ, cwd, _ = seen(tmp_path)
    front = ["-P", "-m", "cpuwheels"]
    assert arguments == [
        *front,
        *map(str, paths.as_arguments()),
        "build",
        "x86",
        "--no-summary",
        "--no-check",
        *options.as_arguments(),
    ]
    assert {"--memory", "3G", "--locked", "--allow-unsandboxed"} <= set(arguments)
    assert nice == 19
    assert "GITHUB_TOKEN" not in environ
    assert environ["CPUWHEELS_VLLM_REPO"] == "https://me:pw@vllm.invalid"
    assert cwd == str(tmp_path), "relative paths of the user's mean the same"


def test_a_build_that_fails_says_so_in_its_log(paths: Paths) -> None:
    with pytest.raises(CommandError, match="status 3"):
        build_in_background(paths, "x86", BuildOptions(source="fail"))
    assert "# exit status 3" in (paths.dist / LOG).read_text()


def test_it_can_be_ended(paths: Paths, tmp_path: Path) -> None:
    raised: list[BaseException] = []

    def work() -> None:
        try:
            build_in_background(paths, "x86", BuildOptions(source="wait"))
        except CommandError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    end = time.monotonic() + 60
    while not (tmp_path / "program" / "seen.json").exists() and time.monotonic() < end:
        time.sleep(0.02)
    process = seen(tmp_path)[-1]
    assert thread.ident is not None
    end_command_of(thread.ident)
    thread.join(60)
    assert raised
    assert not psutil.pid_exists(process)


def test_it_may_take_as_long_as_a_compilation() -> None:
    assert step_limit(Path(LOG).stem).wall == LIMITS["compile"].wall
