"""What a command imports before it does anything: the quick ones stay quick because they import little."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = frozenset(
    f"cpuwheels.{name}" for name in ("audit", "bisect", "index", "pipeline", "verification.parity", "wheel")
)
"""What builds, tests and publishes wheels."""

TOOLS = frozenset({"auditwheel", "elftools", "lief", "obstore", "setuptools_scm", "debian", "jinja2", "httpx"})
MODELS = frozenset({"pydantic", "yaml"})
SCREEN = frozenset({"rich"})


def imported(root: Path, *arguments: str) -> set[str]:
    """The modules that Python imports for a command line."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def loaded(modules: set[str], packages: frozenset[str]) -> set[str]:
    """Those packages of which a module is loaded."""
    return {name for name in packages if any(f"{module}.".startswith(f"{name}.") for module in modules)}


@pytest.mark.parametrize(
    ("line", "without"),
    [
        ("--help", PIPELINE | TOOLS | MODELS | SCREEN),
        ("--version", PIPELINE | TOOLS | MODELS | SCREEN),
        ("build --help", PIPELINE | TOOLS | MODELS | SCREEN),
        ("doctor --help", PIPELINE | TOOLS | MODELS | SCREEN),
        ("matrix", PIPELINE | TOOLS | SCREEN),
    ],
)
def test_quick_commands(project_root: Path, line: str, without: frozenset[str]) -> None:
    modules = imported(project_root, "-m", "cpuwheels", *line.split())
    assert {"click", "cpuwheels.cli.main"} <= modules
    assert loaded(modules, without | {"cpuwheels.doctor"}) == set()


def test_the_doctor(project_root: Path) -> None:
    modules = imported(
        project_root, "-c", "import cpuwheels.cli.main, cpuwheels.doctor.diagnose, cpuwheels.doctor.rows"
    )
    assert {"cpuwheels.doctor.needs", "rich"} <= modules
    assert loaded(modules, PIPELINE | TOOLS) == set()


def test_a_build_that_finds_its_wheel(project_root: Path) -> None:
    """What makes a wheel is imported when one is made."""
    modules = imported(project_root, "-c", "import cpuwheels.cli.main, cpuwheels.pipeline.build")
    assert {"cpuwheels.pipeline.assemble", "elftools"} <= modules
    making = {f"cpuwheels.{name}" for name in ("audit.linux", "pipeline.new_wheel", "pipeline.report", "verification")}
    assert loaded(modules, frozenset(making | TOOLS - {"elftools", "debian", "httpx"})) == set()
