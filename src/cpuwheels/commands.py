"""What each command does, in terms of the stages."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels import pipeline
from cpuwheels.console import Reporter
from cpuwheels.debian.lock import relock
from cpuwheels.debian.mirrors import mirrors
from cpuwheels.model.matrix import load_matrix
from cpuwheels.model.units import format_size
from cpuwheels.publish import published_wheel
from cpuwheels.reference import write_reference
from cpuwheels.verify import require_identical

if TYPE_CHECKING:
    from cpuwheels.config import Places
    from cpuwheels.options import BuildOptions
    from cpuwheels.pipeline import Outcome


def build(places: Places, target: str, options: BuildOptions) -> Outcome:
    """Build the wheel of a target and say where it is."""
    reporter = Reporter(target)
    outcome = pipeline.build(places, load_matrix(places.root), target, options, reporter)
    built = outcome.built
    reporter.info(f"{built.path.name}: {format_size(built.size)}, sha256 {built.sha256}")
    reporter.info(f"needs no more than {', '.join(built.versions)}: {built.policy}")
    print(outcome.wheel)  # noqa: T201  (the result, for scripts)
    return outcome


def schema(places: Places, *, only_check: bool) -> None:
    """Write what is generated from the models, or check that it is up to date."""
    for path in write_reference(places.root, load_matrix(places.root), only_check=only_check):
        print(f"written: {path.relative_to(places.root)}")  # noqa: T201


def lock(places: Places) -> None:
    """Resolve every Debian lock anew."""
    places_to_ask = mirrors(load_matrix(places.root).debian.mirrors, os.environ)
    for path in sorted((places.root / "locks").glob("*.yaml")):
        found = relock(path, places_to_ask)
        print(f"{path.name}: {len(found.packages)} packages")  # noqa: T201


def check(places: Places, target: str, wheel: Path | None) -> None:
    """Run the kernel tests on a wheel."""
    reporter = Reporter(target)
    pipeline.check_wheel(
        places, load_matrix(places.root), target, wheel or published_wheel(places, target), reporter
    )


def doctor(places: Places, target: str | None, *, as_json: bool) -> int:
    """Check what a build needs and return the exit code."""
    raise NotImplementedError


def verify(places: Places, target: str, options: BuildOptions) -> None:
    """Build twice and compare."""
    raise NotImplementedError
