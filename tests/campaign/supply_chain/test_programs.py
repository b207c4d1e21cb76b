"""Attacks on the programs and settings of a build, on what a wheel installs, and on this project's own pins."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import yaml

import wheel_writer as ww
from cpuwheels.audit.validate import Expectations, validate_wheel
from cpuwheels.config.debian_lock import DebianLock, DebianPackage, load_lock
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.platform_policy import load_policy
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import ConfigureError
from cpuwheels.core.process import run
from cpuwheels.fetch.debian.root import unpacked_root
from cpuwheels.kernels.cmake import run_cmake
from cpuwheels.kernels.launchers import Launchers
from deb_writer import Deb
from layout import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.environment.sealed_env import Environment

EXPECTED = Expectations(load_policy("manylinux_2_28", "x86_64"), (), ("demo/_C.abi3.so",), ())
USERS = {
    "LD_PRELOAD": "/hostile.so",
    "LD_LIBRARY_PATH": "/hostile",
    "LD_AUDIT": "/hostile.so",
    "CC": "/hostile/cc",
    "CXX": "/hostile/c++",
    "CFLAGS": "-fplugin=/hostile.so",
    "CXXFLAGS": "-fplugin=/hostile.so",
    "LDFLAGS": "-B/hostile",
    "CPATH": "/hostile",
    "C_INCLUDE_PATH": "/hostile",
    "LIBRARY_PATH": "/hostile",
    "COMPILER_PATH": "/hostile",
    "GCC_EXEC_PREFIX": "/hostile/",
    "CMAKE_PREFIX_PATH": "/hostile",
    "CMAKE_TOOLCHAIN_FILE": "/hostile.cmake",
    "CMAKE_PROJECT_TOP_LEVEL_INCLUDES": "/hostile.cmake",
    "CMAKE_GENERATOR": "Unix Makefiles",
    "PYTHONPATH": "/hostile",
    "PYTHONHOME": "/hostile",
    "VLLM_TARGET_DEVICE": "cuda",
    "PIP_CONFIG_FILE": "/hostile/pip.conf",
    "BASH_ENV": "/hostile.sh",
    "ENV": "/hostile.sh",
    "GIT_CONFIG_GLOBAL": "/hostile",
    "PERL5LIB": "/hostile",
}


def test_17_variables_of_the_user_do_not_reach_a_command(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in USERS.items():
        if not name.startswith("LD_"):  # they would reach this process's own loader
            monkeypatch.setenv(name, value)
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    found = json.loads(run([sys.executable, "-I", "-c", code], log=logs / "log").output)
    assert not found.keys() & USERS.keys()
    assert not closed_environment(network=True).keys() & USERS.keys()


def test_18_a_tool_on_the_path_in_front_of_the_pinned_one(
    tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned, shadow = tmp_path / "venv" / "bin", tmp_path / "shadow"
    for folder in (pinned, shadow):
        folder.mkdir(parents=True)
        (folder / "cmake").write_text(f"#!/bin/sh\necho '{folder.name} was run'\nexit 1\n")
        (folder / "cmake").chmod(0o755)
    monkeypatch.setenv("PATH", f"{shadow}:/usr/bin:/bin")
    environment = cast("Environment", SimpleNamespace(scripts=pinned))
    with pytest.raises(ConfigureError) as raised:
        run_cmake(
            "demo",
            environment,
            tmp_path,
            tmp_path / "build",
            tmp_path / "cache.cmake",
            env=closed_environment(),
            launchers=Launchers(),
            log=logs / "log",
            next_step="",
        )
    assert "bin was run" in raised.value.output
    assert "shadow" not in raised.value.output


def test_19_a_program_that_was_replaced_in_the_store(tmp_path: Path, store: Store, reporter: Reporter) -> None:
    deb = Deb({"usr/bin/cc": "right"}).write(tmp_path / "mirror" / "pool" / "cc.deb")
    package = DebianPackage(
        name="cc",
        version="1",
        path="pool/cc.deb",
        size=deb.stat().st_size,
        sha256=hashlib.sha256(deb.read_bytes()).hexdigest(),
    )
    lock = DebianLock(suites={"trixie": ("cc",)}, architecture="amd64", packages=(package,))
    mirrors = [(tmp_path / "mirror").as_uri()]
    root = unpacked_root(lock, "toolchains", mirrors=mirrors, store=store, reporter=reporter)
    program = root / "usr" / "bin" / "cc"
    program.chmod(0o755)
    program.write_text("hostile")
    again = unpacked_root(lock, "toolchains", mirrors=mirrors, store=store, reporter=reporter)
    assert (again / "usr" / "bin" / "cc").read_text() == "right"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("torch/__init__.py", id="20-another-package"),
        pytest.param("hostile.pth", id="21-pth"),
        pytest.param("sitecustomize.py", id="22-sitecustomize"),
        pytest.param("demo-1.0+cpu.data/scripts/python", id="23-program"),
    ],
)
def test_a_wheel_that_installs_more_than_its_package_is_refused(tmp_path: Path, name: str) -> None:
    assert validate_wheel(ww.write_good(tmp_path), EXPECTED) == []
    faults = validate_wheel(ww.write_good(tmp_path, **{name: b"x"}), EXPECTED)
    assert f"{name.partition('/')[0]} would be installed outside of demo" in faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("pip = demo.x:main", "installs the program pip", id="24-name"),
        pytest.param("demo = os:system", "run os:system, which is not in this wheel", id="25-target"),
    ],
)
def test_a_wheel_whose_program_is_another_one_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    entry_points = {f"{ww.INFO}/entry_points.txt": f"[console_scripts]\n{text}\n".encode()}
    faults = validate_wheel(ww.write_good(tmp_path, **entry_points), EXPECTED)
    assert any(fault in line for line in faults)


def test_26_every_debian_package_is_pinned() -> None:
    found = sorted((ROOT / "locks").glob("*.yaml"))
    assert len(found) > 10
    for path in found:
        packages = load_lock(ROOT, path.stem).packages
        assert packages
        assert len({package.name for package in packages}) == len(packages)


def test_27_what_the_matrix_fetches_is_pinned() -> None:
    matrix = load_matrix(ROOT)
    assert all(release.sdist.sha256 for release in matrix.releases)
    assert all(re.fullmatch("[0-9a-f]{40}", pin.commit) for pin in matrix.onednn.values())
    assert all(wheel.sha256 for pin in matrix.torch.values() for wheel in pin.wheels)


def test_28_actions_of_the_workflows_are_pinned() -> None:
    found = 0
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                if "uses" in step:
                    found += 1
                    assert re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}", step["uses"])
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False
    assert found
