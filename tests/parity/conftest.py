"""Kernel parity: every operator of one library against an independent oracle.

Needs torch, numpy and pytest, and runs where the wheel is installed; one process for each library, as all of them
register the same names.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from harness.case import BASE_SEED, LEVELS, Case, Family
from harness.defects import Build
from harness.library import Library
from harness.records import OtherLibraries, Recorder
from harness.sanitizers import Reports
from harness.selection import cases_for, families_for, uncovered
from harness.waivers import waivers

Chosen = TypeVar("Chosen")

UNLOADABLE = 65
"""Exit status if the library cannot be loaded."""
LIBRARY: pytest.StashKey[Library] = pytest.StashKey()
REPORTS: pytest.StashKey[Reports] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("parity")
    group.addoption("--library", type=Path, required=True, help="kernel library to load")
    group.addoption("--level", choices=LEVELS, default="full", help="how many cases")
    group.addoption("--threads", type=int, default=os.cpu_count(), help="threads of the operators")
    group.addoption("--results", type=Path, help="file that JSON lines are appended to")
    group.addoption(
        "--outputs", type=Path, help="folder with the outputs of other libraries; those of this one go there"
    )
    group.addoption("--operator", action="append", default=[], help="try only this operator (may be repeated)")
    group.addoption("--wheel-version", default="", help="vLLM's version")
    group.addoption("--onednn", default="", help="release of oneDNN in the library")
    group.addoption("--fixed", action="append", default=[], help="a known fault that the library does not have")
    group.addoption("--reports", type=Path, help="file that what sanitizers report is written to")
    group.addoption("--part", default="1/1", help="which part of the cases, of how many, such as 1/2")
    group.addoption("--once", action="store_true", help="run no case again, to compare the bits")
    group.addoption("--after", help="go on after the case of this name")
    group.addoption("--after-drawn", help="go on after the drawn cases to which the one of this name belongs")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REPORTS] = Reports(config.getoption("reports"))
    config.stash[REPORTS].redirect()
    try:
        config.stash[LIBRARY] = Library(config.getoption("library"), fixed=config.getoption("fixed"))
    except OSError as error:
        pytest.exit(str(error.__cause__ or error), UNLOADABLE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Only the deep level needs hypothesis."""
    return True if collection_path.name == "test_sizes.py" and config.getoption("level") != "deep" else None


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("after") or session.config.getoption("after_drawn"):
        return
    operators, library = _chosen(session.config), session.config.stash[LIBRARY]
    Recorder(session.config.getoption("results")).write(
        "library",
        operators=operators,
        registered=library.operators,
        waived={name: reason for name, reason in waivers().items() if name in operators},
        untested=uncovered(operators, library.operators, library.takes),
        seed=BASE_SEED,
    )


def pytest_collection_finish() -> None:
    """Let no collection look at what stays: it takes time, and in a rank it copies memory that both processes share."""
    gc.collect()
    gc.freeze()


def _chosen(config: pytest.Config) -> list[str]:
    """Return the operators to try: those that the library registers, and that were asked for if any were."""
    only = config.getoption("operator")
    return [name for name in config.stash[LIBRARY].operators if not only or name in only]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    only = set(metafunc.config.getoption("operator"))
    if "operator" in metafunc.fixturenames:
        metafunc.parametrize("operator", _chosen(metafunc.config))
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", _cases(metafunc.config, only), ids=lambda case: case.name)
    if "family" in metafunc.fixturenames:
        metafunc.parametrize("family", _drawn(metafunc.config, only), ids=lambda family: family.function.__name__)


def _cases(config: pytest.Config, only: set[str]) -> list[Case]:
    """Return the cases that are left to try; they come before the drawn ones."""
    if config.getoption("after_drawn"):
        return []
    library = config.stash[LIBRARY]
    chosen = cases_for(library.operators, config.getoption("level"), library.takes)
    chosen = _part(config, [case for case in chosen if not only or only & set(case.operators)])
    after = config.getoption("after")
    return chosen[[case.name for case in chosen].index(after) + 1 :] if after else chosen


def _drawn(config: pytest.Config, only: set[str]) -> list[Family]:
    """Return the families whose drawn cases are left to try."""
    library = config.stash[LIBRARY]
    drawn = [family for family in families_for(library.operators, library.takes) if family.deep]
    drawn = _part(config, [family for family in drawn if not only or only & set(family.operators)])
    after = config.getoption("after_drawn")
    functions = [family.function.__name__ for family in drawn]
    return drawn[functions.index(after.partition("[")[0]) + 1 :] if after else drawn


def _part(config: pytest.Config, chosen: Sequence[Chosen]) -> list[Chosen]:
    """Return every how-manieth one; neighbours are alike, and take about as long."""
    number, _, parts = config.getoption("part").partition("/")
    return list(chosen[int(number) - 1 :: int(parts)])


@pytest.fixture(scope="session")
def library(request: pytest.FixtureRequest) -> Library:
    return request.config.stash[LIBRARY]


@pytest.fixture(scope="session")
def threads(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("threads")


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest) -> dict[str, bool]:
    """How often a case is run, as `run_case` takes it."""
    return {"twice": request.config.getoption("level") != "smoke", "once": request.config.getoption("once")}


@pytest.fixture(scope="session")
def build(request: pytest.FixtureRequest) -> Build:
    option = request.config.getoption
    return Build(option("wheel_version"), frozenset(option("fixed")), option("onednn"))


@pytest.fixture(scope="session")
def recorder(request: pytest.FixtureRequest) -> Recorder:
    return Recorder(request.config.getoption("results"), request.config.stash[REPORTS])


@pytest.fixture(scope="session")
def others(request: pytest.FixtureRequest, library: Library) -> OtherLibraries:
    return OtherLibraries(request.config.getoption("outputs"), library.name)
