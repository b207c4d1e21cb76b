"""The second build of a night: what came of it, whatever that is."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CpuwheelsError, PostponedError
from cpuwheels.core.text import printable
from cpuwheels.core.urls import without_userinfo
from cpuwheels.index.nightly.summary import SecondBuild
from cpuwheels.pipeline import verify
from cpuwheels.pipeline.variation.axes import axes_of
from cpuwheels.pipeline.variation.second_build import SecondBuildError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.index.nightly.plan import Job


def build_again(
    paths: Paths,
    matrix: Matrix,
    options: BuildOptions,
    job: Job,
    wheel: Path,
    reporter: Reporter,
    tell: Callable[[], object],
) -> SecondBuild:
    """Build a job's wheel a second time and return what came of it; no error of it is one of the night.

    Args:
        paths: Folders of the job.
        matrix: Says what is different, too.
        options: How the wheel was built; the source is the job's.
        job: What was built.
        wheel: The wheel; what came of it is written next to it.
        reporter: Told what came of it.
        tell: Called when there is a result.
    """
    began = time.monotonic()
    target = matrix.buildable(job.target).id
    own = Reporter(f"{job.target} {job.source[:9]}", reporter.console)
    axes = axes_of(matrix.nightly.verify)

    def came(state: str, text: str) -> SecondBuild:
        reporter.info(f"second build of {job.source[:9]} {job.target}: {state}: {text}")
        values = {"source": job.source, "target": job.target, "state": state, "text": printable(without_userinfo(text))}
        return SecondBuild.model_validate(values | {"seconds": round(time.monotonic() - began, 2)})

    try:
        found = verify.verify_wheel(paths, matrix, target, replace(options, source=job.source), wheel, axes, own)
        tell()
    except PostponedError as error:
        return came("postponed", error.what)
    except CpuwheelsError as error:
        return came("failed", error.what)
    except SecondBuildError as error:
        return came("failed", str(error))
    return came("reproduced" if found.reproduced else "differs", found.as_sentence())
