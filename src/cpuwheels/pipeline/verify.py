"""``nox -s verify-<target>``: the wheel of a build, built again in other circumstances, and both compared."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import PostponedError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.report.write import refresh_if_built
from cpuwheels.pipeline.variation.machine import Machine
from cpuwheels.pipeline.variation.second_build import SecondBuildError, arrange, second_build
from cpuwheels.toolchain.native_helpers import cpu_at_hand
from cpuwheels.verification.parity.reports import write_files
from cpuwheels.verification.reproducibility import compare_wheels
from cpuwheels.verification.verified import VERIFY, Verified, differing, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.pipeline.variation.axes import Axis


def verify_wheel(
    paths: Paths,
    matrix: Matrix,
    target: str,
    options: BuildOptions,
    first: Path,
    axes: Sequence[Axis],
    reporter: Reporter,
    machine: Machine | None = None,
) -> Verified:
    """Build a wheel again in other circumstances, compare both, and write what was found next to the first.

    Args:
        paths: Folders of the first build.
        matrix: The configuration.
        target: Target id.
        options: What the first build was told.
        first: Its wheel, in its folder.
        axes: What is to be different.
        reporter: Told what is different.
        machine: What can be different; this machine if not given.

    Raises:
        PostponedError: The time of the whole run is up.
        SecondBuildError: The second build fails; it has printed why.
        StoreError: Something cannot be written.
    """
    machine = machine or Machine()
    context = open_context(paths, matrix, matrix.buildable(target), options, reporter)
    with storage_errors(first):
        sha256 = file_digest(first)
    cpu = cpu_at_hand(context.store)
    began, started = datetime.now(UTC), time.monotonic()
    wanted = arrange(context, axes, machine)
    try:
        with second_build(context, wanted, machine) as (wheel, happened):
            differences = compare_wheels(first, wheel)
    except SecondBuildError as error:
        if error.status == PostponedError.exit_code:
            raise PostponedError("the time is up", where="the second build of verify") from error
        raise
    verified = Verified(
        wheel=first.name,
        sha256=sha256,
        target=target,
        moment=began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(time.monotonic() - started, 2),
        machine=", ".join(filter(None, [machine.description, cpu.model if cpu else ""])),
        varied=shortened(happened.varied),
        not_varied=shortened(happened.not_varied),
        count=len(differences),
        differences=differing(differences),
    )
    write_files(first.parent, {VERIFY: verified.as_text()})
    refresh_if_built(first)
    return verified
