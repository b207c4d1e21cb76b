"""What a command may see, and what is refused before anything is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.bisect.command_sandbox import TEMPORARY, check_places, named_paths, user_places
from cpuwheels.config.options import BisectOptions
from cpuwheels.core.errors import UsageError
from cpuwheels.pipeline.user_places import UserPlaces
from cpuwheels.sandbox import prepare
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.sandbox.mechanism import Mechanism


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home" / "someone"
    (folder / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    return folder


def options(**given: object) -> BisectOptions:
    return BisectOptions(good="a", bad="b", **({"run": "true"} | given))  # type: ignore[arg-type]


def test_what_a_command_names_is_shown_but_no_home_folder(home: Path) -> None:
    script = home / "check.py"
    script.write_text("")
    line = f"cd / && SETTING={script} python {script} --at {home} --in {home.parent} relative.py /not/there"
    assert named_paths(line, home) == [script, script]
    assert named_paths("echo 'one") == []


def test_the_users_places_are_absolute(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home / "project")
    script = home / "check.py"
    script.write_text("")
    chosen = options(run=f"python {script}", readable=(Path("data"), script), writable=(Path("out"),))
    here = home / "project"
    assert user_places(chosen, here) == UserPlaces(here, (script, here / "data"), (here / "out",))
    assert user_places(options(run=None, serve="ask.py"), here).readable == (here / "ask.py",)
    assert not user_places(options(unconfined=True), here).confined


def test_the_plan_has_the_users_places(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "_mechanism", lambda _: Mechanism("user namespace", program=Path("/bwrap")))
    for name in ("data", "out", "venv/bin", "probe"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data" / "model").symlink_to(home / "project")
    python = tmp_path / "venv" / "bin" / "python"
    python.write_text("")
    places = UserPlaces(home / "project", (tmp_path / "data",), (tmp_path / "out",))
    confine = places.confine(build_context(tmp_path), python, [tmp_path / "venv"], tmp_path / "probe" / TEMPORARY)
    confined = confine(["sh", "-c", "true"], {"HOME": str(home), "https_proxy": "http://proxy", "MINE": "1"})
    plan = json.loads(Path(confined.argv[confined.argv.index("--") - 1]).read_text())
    mounts = [tuple(plan["mounts"][place : place + 2]) for place in range(len(plan["mounts"]) - 1)]
    work = tmp_path / "probe" / TEMPORARY
    for kind, path in (
        ("--ro-bind", home / "project"),
        ("--ro-bind", tmp_path / "data"),
        ("--ro-bind", tmp_path / "venv"),
        ("--bind", tmp_path / "out"),
        ("--bind", work),
    ):
        assert (kind, str(path)) in mounts
    assert not [path for _, path in mounts if path in {str(home), str(tmp_path), str(tmp_path / "probe")}]
    assert plan["folder"] == str(home / "project")
    assert "--unshare-net" in plan["namespaces"]
    assert confined.env["HOME"] == str(work / "home")
    assert confined.env["MINE"] == "1"
    assert "https_proxy" not in confined.env
    assert (work / "home").is_dir()


def test_only_who_says_so_runs_unconfined(tmp_path: Path) -> None:
    context = build_context(tmp_path)
    assert UserPlaces(tmp_path, confined=False).confine(context, Path("python"), [], tmp_path) is unconfined
    assert UserPlaces(tmp_path).confine(context, Path("python"), [], tmp_path) is not unconfined


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"readable": (Path("/not/there"),)}, "/not/there is not there"),
        ({"writable": (Path("/not/there"),)}, "/not/there is not there"),
        ({"run": None, "parity": "a", "readable": (Path("/"),)}, "only a command or a script is shown places"),
        ({"run": None, "parity": "a", "unconfined": True}, "only a command or a script is shown places"),
        ({"unconfined": True, "writable": (Path("/"),)}, "an unconfined command sees everything"),
    ],
)
def test_places_that_mean_nothing_are_refused(home: Path, given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_places(options(**given), home / "project")


def test_a_working_folder_with_the_home_folder_in_it_is_refused(home: Path) -> None:
    for folder in (home, home.parent, Path("/")):
        with pytest.raises(UsageError, match="the working folder has your home folder in it"):
            check_places(options(), folder)
        check_places(options(unconfined=True), folder)
        check_places(options(run=None, parity="a"), folder)
    check_places(options(), home / "project")
