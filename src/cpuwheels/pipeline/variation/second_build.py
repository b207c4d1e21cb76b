"""A second build of the same source in other circumstances, to be compared with the first byte by byte."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.installation import own_version
from cpuwheels.config.paths import PACKAGE
from cpuwheels.core.environ import LIBRARY
from cpuwheels.core.process import relay
from cpuwheels.core.verbosity import verbosity_arguments
from cpuwheels.pipeline.variation.axes import BY_NAME
from cpuwheels.pipeline.variation.circumstances import Circumstances, NotVariedError
from cpuwheels.pipeline.variation.driver import driver_environment
from cpuwheels.pipeline.variation.library import vary_library
from cpuwheels.pipeline.variation.machine import FROM_COPY, LAUNCH
from cpuwheels.pipeline.variation.place import other_home, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.pipeline.variation.axes import Axis
    from cpuwheels.pipeline.variation.machine import Machine
    from cpuwheels.pipeline.variation.place import Place

_UV_CACHE = "UV_CACHE_DIR"


class SecondBuildError(Exception):
    """The second build has failed and printed why.

    Attributes:
        status: Its exit status.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"the second build ended with status {status}")
        self.status = status


@dataclass(frozen=True)
class Arrangement:
    """What a second build has otherwise.

    Attributes:
        circumstances: How it is run.
        varied: Axis → from what to what.
        not_varied: Axis that was asked for → why this machine cannot vary it.
    """

    circumstances: Circumstances
    varied: dict[str, str]
    not_varied: dict[str, str]


def arrange(context: BuildContext, axes: Sequence[Axis], machine: Machine) -> Arrangement:
    """Return the circumstances of a second build: those of the first, but for the axes that can be varied.

    Args:
        context: A run of the first build's target, with its options.
        axes: What is to be varied.
        machine: What can be varied.
    """
    now = Circumstances(context.options, machine.umask)
    varied: dict[str, str] = {}
    refused: dict[str, str] = {}
    wanted = list(axes)
    if machine.namespaces and BY_NAME["path"] not in wanted:
        wanted.insert(0, BY_NAME["path"])  # nothing can be put at the place of the first build's folders
    for axis in wanted:
        try:
            changed, what = axis.vary(machine, now)
            if changed.loaded != now.loaded:
                changed = changed.with_variables(**{LIBRARY: str(vary_library(context))})
        except NotVariedError as error:
            refused[axis.name] = str(error)
        else:
            now, varied[axis.name] = changed, what
    if now.elsewhere:
        # What lies elsewhere cannot use tools that hold their own path.
        varied |= {name: BY_NAME[name].vary(machine, now)[1] for name in ("path", "store") if name not in varied}
    return Arrangement(now, varied, refused)


@contextmanager
def second_build(context: BuildContext, wanted: Arrangement, machine: Machine) -> Iterator[tuple[Path, Arrangement]]:
    """Build a target again and yield the wheel, which is removed afterwards, and what was different in truth.

    Args:
        context: A run of the first build's target, with its options.
        wanted: What is to be different.
        machine: What can be different.

    Raises:
        SecondBuildError: The second build fails; it has printed why.
        StoreError: Its folders cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="verify-", dir=context.paths.cache) as name:
        base = Path(name).resolve()
        now = wanted.circumstances
        place = prepare(context.paths, base, now)
        python, wanted = _driver(context, place, wanted)
        for axis, what in wanted.varied.items():
            context.reporter.info(f"other {axis}: {what}")
        for axis, why in wanted.not_varied.items():
            context.reporter.announce(f"not varied: {axis}: {why}")
        context.reporter.info("building again")
        plan = base / "plan.json"
        plan.write_text(json.dumps(_plan(place, now, machine), indent=1))
        command = [sys.executable, "-I", "-S", LAUNCH, plan, "--", *python, *verbosity_arguments()]
        command += [*place.paths.as_arguments(), "build", context.target.id, "--no-summary"]
        done = relay([*command, *now.options.as_arguments()], env=_environment(place, now), umask=now.umask)
        if done.returncode != 0:
            raise SecondBuildError(done.returncode)
        yield place.outside(Path(done.output.strip())), wanted


def _driver(context: BuildContext, place: Place, wanted: Arrangement) -> tuple[list[str | Path], Arrangement]:
    """Return what runs this very program, or its copy, and what that makes different."""
    folder, now = place.cache / "driver", wanted.circumstances
    python = Path(sys.executable)
    if now.python:
        try:
            log = context.logs / "driver.log"
            python = place.inside(driver_environment(folder, now.python, context.root, log, own_version()))
        except NotVariedError as error:
            varied = {name: what for name, what in wanted.varied.items() if name != "python"}
            wanted = replace(wanted, varied=varied, not_varied=wanted.not_varied | {"python": str(error)})
    return [python, FROM_COPY, place.program or PACKAGE.parent], wanted


def _plan(place: Place, now: Circumstances, machine: Machine) -> dict[str, object]:
    """Return what the launcher does; with folders at the place of others there are namespaces in any case."""
    apart = bool(now.user or now.hostname or place.binds)
    user = now.user.number if now.user else os.geteuid()
    return {
        "user": user if apart else None,
        "group": now.user.number if now.user else os.getegid(),
        "hostname": now.hostname,
        "files": machine.accounts(now.user.name, now.user.number) if now.user else {},
        "binds": [[str(what), str(where)] for what, where in place.binds],
        "closed": False,
        "personality": now.personality,
        "cpus": sorted(now.cpus or ()),
    }


def _environment(place: Place, now: Circumstances) -> dict[str, str]:
    """Return the environment of the driver."""
    changes = dict(now.variables)
    if now.home:
        cache = os.environ.get(_UV_CACHE) or str(
            Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "uv"
        )
        changes |= {"HOME": str(other_home(place)), "XDG_CACHE_HOME": None, "XDG_CONFIG_HOME": None, _UV_CACHE: cache}
    if now.loaded:
        changes |= {"LD_PRELOAD": changes.get(LIBRARY), **now.loaded}
    merged = {**os.environ, **{name: value for name, value in changes.items() if value is not None}}
    return {name: value for name, value in merged.items() if changes.get(name, "") is not None}
