"""The script with which a person uses the environment of a commit."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cpuwheels.bisect.environment_script import write_script
from cpuwheels.bisect.predicates import Installed
from cpuwheels.sandbox.confine import Confined


def confine(argv: Sequence[str | Path], env: Mapping[str, str]) -> Confined:
    """Stand for a sandbox: what it runs is announced, and has another home."""
    kept = {name: value for name, value in env.items() if name != "HTTPS_PROXY"} | {"HOME": "/its/own"}
    return Confined(["/bin/sh", "-c", 'echo confined; exec "$@"', "sh", *argv], kept)


def shown(script: Path, **environ: str) -> dict[str, str]:
    asked = [str(script), "sh", "-c", 'echo "$PATH|$SECRET|$TERM|$MINE|$HOME|$OTHER|$HTTPS_PROXY|$(pwd)"']
    done = subprocess.run(asked, check=True, capture_output=True, text=True, env=environ, cwd="/")
    *front, last = done.stdout.splitlines()
    names = ("PATH", "SECRET", "TERM", "MINE", "HOME", "OTHER", "HTTPS_PROXY", "cwd")
    return dict(zip(names, last.split("|"), strict=True)) | {"front": "".join(front)}


def written(folder: Path, env: Mapping[str, str], named: Sequence[str]) -> Path:
    place = folder / "a 'place'"
    place.mkdir()
    return write_script(folder, Installed(folder / "python", {}, confine), env, named, place)


def test_it_has_the_environment_and_is_confined(tmp_path: Path) -> None:
    script = written(tmp_path, {"PATH": os.defpath, "MINE": 'it\'s "mine"', "TERM": "old"}, [])
    found = shown(script, TERM="new", OTHER="x", MINE="other", HOME="/home")
    assert found == {
        "PATH": os.defpath,
        "SECRET": "",
        "TERM": "new",
        "MINE": 'it\'s "mine"',
        "HOME": "/its/own",
        "OTHER": "",
        "HTTPS_PROXY": "",
        "cwd": str(tmp_path / "a 'place'"),
        "front": "confined",
    }


def test_values_that_the_user_hands_out_are_not_written(tmp_path: Path) -> None:
    env = {"PATH": os.defpath, "SECRET": "s3cret", "HOME": "/mine", "HTTPS_PROXY": "http://p", "odd-name": "s3cret"}
    script = written(tmp_path, env, ["SECRET", "HOME", "HTTPS_PROXY", "odd-name"])
    assert "s3cret" not in script.read_text()
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    found = shown(script, SECRET="now", HOME="/other", HTTPS_PROXY="http://q")
    assert (found["SECRET"], found["HOME"], found["HTTPS_PROXY"]) == ("now", "/its/own", "")
    assert shown(script)["SECRET"] == ""


def test_without_a_command_it_is_a_shell(tmp_path: Path) -> None:
    script = written(tmp_path, {"PATH": os.defpath, "MINE": "1"}, [])
    done = subprocess.run([script], input="echo $MINE\n", check=True, capture_output=True, text=True, env={})
    assert done.stdout.splitlines() == ["confined", "1"]


def test_its_status_is_that_of_the_command(tmp_path: Path) -> None:
    script = written(tmp_path, {"PATH": os.defpath}, [])
    assert subprocess.run([script, "sh", "-c", "exit 7"], check=False, capture_output=True).returncode == 7


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    script = written(tmp_path, {"PATH": os.defpath}, [])
    done = subprocess.run([script, "nosuch", "a"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (127, "use: there is no command nosuch here\n")
