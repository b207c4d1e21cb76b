"""The second build: what each axis changes for the program that builds, told by a program in its place."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contexts import build_context
from cpuwheels.config.context import BuildContext
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.environ import AHEAD, LIBRARY, ORDER
from cpuwheels.core.step_limits import DEADLINE_VARIABLE
from cpuwheels.pipeline.variation import second_build as module
from cpuwheels.pipeline.variation.axes import AXES, BY_NAME, NOISE, axes_of
from cpuwheels.pipeline.variation.circumstances import NotVariedError
from cpuwheels.pipeline.variation.machine import Machine
from cpuwheels.pipeline.variation.second_build import SecondBuildError, arrange, second_build
from layout import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="most axes are Linux's")

PROGRAM = """\
import ctypes, json, os, pwd, socket, sys, time
from pathlib import Path

arguments = sys.argv[1:]
places = dict(zip(arguments[0:6:2], arguments[1:6:2]))
umask = os.umask(0)
os.umask(umask)
personality = ctypes.CDLL(None).personality(ctypes.c_ulong(0xFFFFFFFF))
facts = {
    "program": __file__,
    "arguments": arguments,
    "places": places,
    "variables": dict(os.environ),
    "umask": umask,
    "user": [os.getuid(), os.getgid(), pwd.getpwuid(os.getuid()).pw_name],
    "hostname": socket.gethostname(),
    "kernel": os.uname().release,
    "cpus": len(os.sched_getaffinity(0)),
    "personality": personality & 0x0040000,
    "year": time.gmtime().tm_year,
    "names": os.listdir(os.environ["NAMES"]),
    "home": sorted(os.listdir(os.path.expanduser("~"))),
    "stores": sorted(os.listdir(places["--cache"])),
    "root": sorted(os.listdir(places["--root"])),
}
Path(os.environ["GIVEN"]).write_text(json.dumps(facts))
wheel = Path(places["--dist"]) / "x86" / "second.whl"
wheel.parent.mkdir(parents=True)
wheel.write_text("second")
print(wheel)
sys.exit(int(os.environ["STATUS"]))
"""
"""Stands for cpuwheels: writes down how it is run."""


class Second:
    """The first build, and how a second one is run."""

    def __init__(self, base: Path) -> None:
        self.base, self.given = base, base / "given.json"
        self.machine = Machine()
        options = BuildOptions(source="0.32.0", toolchain="debian", locked=True)
        self.context: BuildContext = build_context(base / "cache", root=ROOT, options=options)
        self.context = dataclasses.replace(
            self.context, paths=dataclasses.replace(self.context.paths, dist=base / "project" / "dist")
        )

    def facts(self, *names: str, **options: Any) -> dict[str, Any]:
        """Run a second build with some axes and return what its program wrote down."""
        context = dataclasses.replace(self.context, options=dataclasses.replace(self.context.options, **options))
        wanted = arrange(context, axes_of(names) if names else (), self.machine)
        with second_build(context, wanted, self.machine) as (wheel, happened):
            assert wheel.read_text() == "second"
            self.happened = happened
            found: dict[str, Any] = json.loads(self.given.read_text())
        return found


@pytest.fixture
def second(tmp_path: Path, c_compiler: Path, monkeypatch: pytest.MonkeyPatch) -> Second:
    program = tmp_path / "program" / "cpuwheels"
    program.mkdir(parents=True)
    (program / "__init__.py").touch()
    (program / "__main__.py").write_text(PROGRAM)
    for place in (module, sys.modules["cpuwheels.pipeline.variation.place"]):
        monkeypatch.setattr(place, "PACKAGE", program)
    names = tmp_path / "names"
    names.mkdir()
    for name in "abcdefgh":
        (names / name).touch()
    for name, value in {"GIVEN": tmp_path / "given.json", "STATUS": 0, "NAMES": names, "TZ": "UTC"}.items():
        monkeypatch.setenv(name, str(value))
    for name in ("LC_ALL", DEADLINE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for kind in ("downloads", "kernels", "toolchains"):
        (tmp_path / "cache" / kind / "key").mkdir(parents=True)
        (tmp_path / "cache" / kind / "key" / "file").write_text(kind)
    library = tmp_path / "cache" / "vary" / "key" / "libvary.so"

    def compiled(_: BuildContext) -> Path:
        library.parent.mkdir(parents=True, exist_ok=True)
        sources = sorted((ROOT / "csrc" / "vary").glob("*.c"))
        subprocess.run([c_compiler, "-shared", "-fPIC", "-o", library, *sources, "-ldl"], check=True)
        return library

    monkeypatch.setattr(module, "vary_library", compiled)
    return Second(tmp_path)


@pytest.fixture
def first(second: Second) -> dict[str, Any]:
    """What a second build sees that has nothing otherwise."""
    return second.facts()


def require(reason: str) -> None:
    if reason:
        pytest.skip(reason)


def test_without_an_axis_nothing_is_different(second: Second, first: dict[str, Any]) -> None:
    require(second.machine.namespaces)
    paths = second.context.paths
    assert first["places"] == {"--root": str(ROOT), "--cache": str(paths.cache), "--dist": str(paths.dist)}
    assert first["arguments"][6:] == ["build", "x86", "--no-summary", *second.context.options.as_arguments()]
    assert first["program"] == str(second.base / "program" / "cpuwheels" / "__main__.py")
    assert (first["hostname"], first["kernel"]) == (platform.node(), platform.release())
    assert first["user"][:2] == [os.getuid(), os.getgid()]
    assert (first["umask"], first["cpus"]) == (second.machine.umask, len(second.machine.cpus))
    changed = {
        name for name in {*os.environ, *first["variables"]} if os.environ.get(name) != first["variables"].get(name)
    }
    assert changed <= {"LC_CTYPE", "_", "PYTEST_CURRENT_TEST"}
    assert second.happened.varied == {}
    assert second.happened.not_varied == {}


def test_its_stores_have_tools_but_nothing_that_was_built(second: Second, first: dict[str, Any]) -> None:
    require(second.machine.namespaces)
    assert first["stores"] == ["downloads", "toolchains"]
    assert sorted(path.name for path in second.context.paths.cache.iterdir()) == ["downloads", "kernels", "toolchains"]


def test_cold_stores_have_what_was_fetched(second: Second) -> None:
    require(second.machine.namespaces)
    facts = second.facts("store")
    assert facts["stores"] == ["downloads"]
    assert facts["places"]["--cache"] == str(second.context.paths.cache)


def test_another_path_of_everything(second: Second, first: dict[str, Any]) -> None:
    facts = second.facts("path")
    assert set(second.happened.varied) == {"path", "store"}
    for name, value in first["places"].items():
        assert facts["places"][name] != value
    assert " " in facts["places"]["--cache"]
    assert facts["program"] != first["program"]
    assert facts["stores"] == ["downloads"]
    assert {"matrix.yaml", "cmake", "csrc", "locks", "measured", "patches", "tests"} == set(facts["root"])


def test_a_longer_path(second: Second) -> None:
    facts = second.facts("path")
    longer = second.facts("path-length")
    assert set(second.happened.varied) == {"path", "path-length", "store"}
    for name in ("--cache", "--dist", "--root"):
        assert len(longer["places"][name]) == len(facts["places"][name]) + 150
    assert len(longer["program"]) == len(facts["program"]) + 150


def test_another_time(second: Second, first: dict[str, Any]) -> None:
    facts = second.facts("time")
    assert facts["year"] in {first["year"] + 7, first["year"] + 8}
    assert int(facts["variables"][AHEAD]) > 7 * 365 * 86400
    assert Path(facts["variables"][LIBRARY]).name == "libvary.so"
    assert facts["variables"]["LD_PRELOAD"] == facts["variables"][LIBRARY]


def test_another_order_of_files(second: Second, first: dict[str, Any]) -> None:
    facts = second.facts("file-order")
    assert sorted(facts["names"]) == sorted(first["names"]) == list("abcdefgh")
    assert facts["names"] != first["names"]
    assert facts["year"] == first["year"]
    assert int(facts["variables"][ORDER]) > 0


@pytest.mark.parametrize(
    ("axis", "variables"),
    [
        ("time-zone", {"TZ": "Pacific/Kiritimati"}),
        ("locale", {"LANG": "tr_TR.UTF-8", "LANGUAGE": "tr"}),
        ("environment", NOISE),
    ],
)
def test_other_variables(second: Second, axis: str, variables: dict[str, str]) -> None:
    facts = second.facts(axis)
    assert variables.items() <= facts["variables"].items()
    assert facts["variables"]["PATH"] == os.environ["PATH"]


def test_another_time_zone_than_the_usual_other_one(second: Second, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    assert second.facts("time-zone")["variables"]["TZ"] == "America/St_Johns"


@pytest.mark.parametrize(("now", "other"), [(0o022, 0o077), (0o077, 0o022)])
def test_another_umask(second: Second, now: int, other: int) -> None:
    second.machine.umask = now  # type: ignore[misc]  (a cached property)
    assert second.facts("umask")["umask"] == other


def test_another_user(second: Second, first: dict[str, Any]) -> None:
    require(second.machine.namespaces)
    facts = second.facts("user")
    assert facts["user"] == [54321, 54321, "somebody-else"]
    assert facts["variables"]["USER"] == facts["variables"]["LOGNAME"] == "somebody-else"
    assert facts["user"] != first["user"]
    assert facts["hostname"] == first["hostname"]


def test_another_name_of_the_machine(second: Second, first: dict[str, Any]) -> None:
    require(second.machine.namespaces)
    facts = second.facts("hostname")
    assert facts["hostname"] == "another-machine" != first["hostname"]
    assert facts["user"] == first["user"]


def test_fewer_cpus(second: Second, first: dict[str, Any]) -> None:
    require("one CPU" if first["cpus"] == 1 else "")
    assert second.facts("cpus")["cpus"] == first["cpus"] - 1


def test_addresses_that_are_not_random(second: Second, first: dict[str, Any]) -> None:
    require(second.machine.personalities or ("" if second.machine.randomized else "not random here"))
    assert (first["personality"], second.facts("aslr")["personality"]) == (0, 0x0040000)


def test_another_kernel(second: Second, first: dict[str, Any]) -> None:
    require(second.machine.personalities)
    assert second.facts("kernel")["kernel"].startswith("2.6.")
    assert not first["kernel"].startswith("2.6.")


def test_another_home(second: Second, monkeypatch: pytest.MonkeyPatch) -> None:
    home = second.base / "old home"
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".bashrc").touch()
    (home / ".netrc").touch()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "elsewhere"))
    for name in ("UV_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    facts = second.facts("home")
    assert facts["home"] == [".config", ".netrc"]
    assert facts["variables"]["HOME"] != str(home)
    assert facts["variables"]["UV_CACHE_DIR"] == str(home / ".cache" / "uv"), "what was fetched is shared"
    assert "XDG_CONFIG_HOME" not in facts["variables"]


def option(facts: dict[str, Any], name: str) -> str | None:
    words: list[str] = facts["arguments"]
    return words[words.index(name) + 1] if name in words else None


@pytest.mark.parametrize(("cpus", "jobs", "other"), [(8, None, "4"), (8, "2", "1"), (2, "8", "1"), (2, "1", "2")])
def test_another_number_of_jobs(second: Second, cpus: int, jobs: str | None, other: str) -> None:
    second.machine.cpus = frozenset(range(cpus))  # type: ignore[misc]
    assert option(second.facts("jobs", jobs=jobs), "--jobs") == other


@pytest.mark.parametrize(("memory", "other"), [(None, "12288M"), ("8G", "12288M"), ("12288M", "11776M")])
def test_another_memory_cap(second: Second, memory: str | None, other: str) -> None:
    second.machine.memory = 16 << 30  # type: ignore[misc]
    assert option(second.facts("memory", memory=memory), "--memory") == other


@pytest.mark.parametrize(("now", "other"), [("auto", "off"), ("off", "auto")])
def test_without_the_compiler_cache_or_with_it(second: Second, now: str, other: str) -> None:
    assert option(second.facts("compiler-cache", compiler_cache=now), "--compiler-cache") == other


def fake_driver(folder: Path, python: Path, _root: Path, _log: Path, _version: str) -> Path:
    made = folder / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.write_text(f'#!/bin/sh\nDRIVER={python} exec {sys.executable} "$@"\n')
    made.chmod(0o755)
    return made


def test_another_python(second: Second, monkeypatch: pytest.MonkeyPatch) -> None:
    second.machine.pythons = {"3.13": Path("/other/python3.13"), "3.12": Path("/x")}  # type: ignore[misc]
    monkeypatch.setattr(module, "driver_environment", fake_driver)
    assert second.facts("python")["variables"]["DRIVER"] == "/other/python3.13"
    assert second.happened.varied["python"].endswith("→ 3.13")


def test_another_python_that_lacks_what_the_program_requires(second: Second, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Path:
        raise NotVariedError("no wheel of pydantic for it")

    second.machine.pythons = {"3.13": Path("/other/python3.13")}  # type: ignore[misc]
    monkeypatch.setattr(module, "driver_environment", refused)
    second.facts("python", "umask")
    assert second.happened.not_varied == {"python": "no wheel of pydantic for it"}
    assert list(second.happened.varied) == ["umask"]


def test_all_at_once(second: Second, first: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    require(second.machine.namespaces or second.machine.personalities)
    second.machine.pythons = {"3.13": Path("/other/python3.13")}  # type: ignore[misc]
    second.machine.memory = 16 << 30  # type: ignore[misc]
    monkeypatch.setattr(module, "driver_environment", fake_driver)
    facts = second.facts("all")
    impossible = {"toolchain"} | ({"cpus", "jobs"} if first["cpus"] == 1 else set())
    assert second.happened.varied.keys() == BY_NAME.keys() - impossible
    assert second.happened.not_varied.keys() == impossible
    assert facts["user"][2] == "somebody-else"
    assert facts["hostname"] == "another-machine"
    assert facts["kernel"].startswith("2.6.")
    assert facts["year"] > first["year"]
    assert facts["umask"] != first["umask"]


Lack = Callable[[Machine], None]


def lack(name: str, value: object) -> Lack:
    return lambda machine: setattr(machine, name, value)


@pytest.mark.parametrize(
    ("axis", "lacking", "words"),
    [
        ("user", lack("namespaces", "user namespaces do not work here: no"), "user namespaces do not work here: no"),
        ("hostname", lack("namespaces", "none"), "none"),
        ("aslr", lack("personalities", "personality(2) does not work here"), "personality(2) does not work here"),
        ("aslr", lack("randomized", False), "this kernel does not randomise addresses"),
        ("kernel", lack("personalities", "refused"), "refused"),
        ("cpus", lack("cpus", frozenset([3])), "there is one CPU"),
        ("jobs", lack("cpus", frozenset([3])), "one CPU runs one job at once"),
        ("memory", lack("memory", 6 << 30), "this machine has 6"),
        ("python", lack("pythons", {}), "uv finds no other Python"),
        ("time", lack("is_linux", False), "a library that is Linux's"),
        ("file-order", lack("is_linux", False), "a library that is Linux's"),
        ("toolchain", lambda _: None, "a wheel names its compiler by content"),
    ],
)
def test_what_cannot_be_varied_is_named(second: Second, axis: str, lacking: Lack, words: str) -> None:
    lacking(second.machine)
    found = arrange(second.context, axes_of([axis]), second.machine)
    assert list(found.not_varied) == [axis]
    assert words in found.not_varied[axis]
    assert axis not in found.varied


def test_a_library_that_cannot_be_compiled(second: Second, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> Path:
        raise NotVariedError("there is no compiler")

    monkeypatch.setattr(module, "vary_library", refused)
    found = arrange(second.context, axes_of(["time", "umask"]), second.machine)
    assert found.not_varied == {"time": "there is no compiler"}
    assert not found.circumstances.loaded
    assert list(found.varied) == ["umask"]


def test_without_namespaces_it_is_elsewhere_and_said_to_be(second: Second) -> None:
    second.machine.namespaces = "none here"  # type: ignore[misc]
    facts = second.facts("umask")
    assert set(second.happened.varied) == {"path", "store", "umask"}
    assert facts["places"]["--cache"] != str(second.context.paths.cache)


def test_its_failure_is_that_of_the_comparison(second: Second, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATUS", "27")
    with pytest.raises(SecondBuildError) as raised:
        second.facts("umask")
    assert raised.value.status == 27
    assert not list(second.context.paths.cache.glob("verify-*"))


def test_each_axis_is_tried_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [axis.name for axis in AXES if f'"{axis.name}"' not in text] == []
