"""The overlay built into a wheel by its PEP 517 hook, and what the hook wrote compared with what was declared."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError, WheelError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.process import run
from cpuwheels.sandbox.steps import pep517_hook
from cpuwheels.wheel.core_metadata import Project, differences, read_project
from cpuwheels.wheel.dist_info import dist_info_of

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.sandbox.confine import Sandbox
    from cpuwheels.wheel.overlay import Overlay

# The umask is set in the child: this process may have other threads that write files. And this wheel is packed
# once more in canonical form, so the time for compressing it is saved: zipfile asks zlib for this default level.
_HOOK = (
    "import os, sys, zlib; os.umask(0o022); zlib.Z_DEFAULT_COMPRESSION = zlib.Z_NO_COMPRESSION; "
    "from scikit_build_core.build import build_wheel; print(build_wheel(sys.argv[1]))"
)


def build_overlay(
    overlay: Overlay, *, python: Path, epoch: int, out: Path, log: Path, sandbox: Sandbox, platform: str | None = None
) -> Path:
    """Call the overlay's PEP 517 hook and return the wheel it wrote.

    Args:
        overlay: The project.
        python: Interpreter with the build backend.
        epoch: ``SOURCE_DATE_EPOCH``, seconds since 1970.
        out: Emptied, then holds the wheel alone.
        log: Log file of the step.
        sandbox: Confines the hook: names of files, and licence files, are upstream's.
        platform: What Python takes for its platform, and the wheel's tag names; this machine's if not given.

    Raises:
        WheelError: The hook fails.
    """
    with storage_errors(out):
        remove_tree(out)
        out.mkdir(parents=True)
        remove_tree(overlay.folder / "build")
    # The variable is CPython's own for cross builds (Lib/sysconfig, get_platform).
    host = {"_PYTHON_HOST_PLATFORM": platform} if platform else {}
    env = closed_environment({"SOURCE_DATE_EPOCH": str(epoch)} | host, path_first=[python.parent])
    step = pep517_hook(python, python.parent.parent, overlay.folder, out)
    # -P: files of the overlay are upstream's, and none is a module for the hook.
    confined = sandbox.confine(step, [python, "-P", "-c", _HOOK, out], env, log.parent)
    try:
        run(confined.argv, log=log, env=confined.env)
    except CommandError as error:
        raise WheelError(
            "the wheel cannot be built from its overlay project",
            where=overlay.folder,
            log=log,
            output=error.output,
            next_step=f"try it by hand: uv build --wheel --no-build-isolation {overlay.folder}",
        ) from error
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1 or wheels[0].is_symlink() or not wheels[0].is_file():
        raise WheelError(f"the build left {len(wheels)} wheels, expected one", where=out, log=log)
    return wheels[0]


def check_complete(wheel: Path, files: frozenset[str], project: Project) -> None:
    """Raise if a wheel lacks a file or says other metadata than declared.

    Raises:
        WheelError: The first missing or additional file, or field, is named.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = {info.filename for info in archive.infolist() if not info.is_dir()}
        dist_info = dist_info_of(names)
        entry_points = f"{dist_info}/entry_points.txt"
        written = read_project(
            archive.read(f"{dist_info}/METADATA"), archive.read(entry_points).decode() if entry_points in names else ""
        )
    content = {name for name in names if not name.startswith(f"{dist_info}/")}
    faults = [f"{name} is missing" for name in sorted(files - content)]
    faults += [f"{name} should not be there" for name in sorted(content - files)]
    faults += differences(project, written)
    faults += [
        f"licence file {name} is missing"
        for name in project.license_files
        if f"{dist_info}/licenses/{name}" not in names
    ]
    if faults:
        raise WheelError(
            f"the wheel is not what the source declares ({len(faults)} differences)",
            where=wheel,
            output="\n".join(faults[:20]),
            next_step="report this with the log: the build backend changed something on the way",
        )
