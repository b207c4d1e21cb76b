"""The lock next to a wheel: ``pylock.toml`` (PEP 751), with the wheel itself and everything that it requires.

It is valid for the wheel's platform and for those Python versions for which the place that torch comes from has a wheel
of it; what was not seen there is not in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import tomli_w
from packaging.pylock import Pylock, PylockValidationError
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import BuildEnvironmentError
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.parse import parse_toml
from cpuwheels.environment.torch_index import offered_files, torch_pin
from cpuwheels.pipeline.lock_resolution import Resolution

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.pipeline.package_wheel import PackagedWheel
    from cpuwheels.wheel.core_metadata import Project

FILE = "pylock.toml"
KIND = "pylocks"


def write_pylock(
    context: BuildContext, project: Project, environment: Environment, wheel: PackagedWheel, folder: Path
) -> Path | None:
    """Write the lock of a wheel, or announce why there is none.

    What the wheel requires is resolved once and kept: another wheel with the same requirements needs no network.

    Args:
        context: The run; if it is locked, nothing is resolved.
        project: The wheel's metadata.
        environment: The build environment: where its torch came from.
        wheel: The wheel in that folder.
        folder: Where the lock goes.
    """
    try:
        resolved = _resolved(context, project, environment)
    except (BuildEnvironmentError, OSError) as error:
        reason = error.what if isinstance(error, BuildEnvironmentError) else str(error)
        context.reporter.announce(f"the wheel has no {FILE} next to it: {reason}")
        return None
    lock = parse_toml(resolved.read_bytes(), resolved)
    own = {"name": wheel.path.name, "path": wheel.path.name, "size": wheel.size, "hashes": {"sha256": wheel.sha256}}
    lock["packages"].append({"name": project.name, "version": project.version, "wheels": [own]})
    lock["packages"].sort(key=lambda package: (package["name"], package.get("version", "")))
    return write_lock(lock, folder / FILE)


def write_lock(lock: dict[str, Any], path: Path) -> Path:
    """Write a lock after checking it.

    Raises:
        BuildEnvironmentError: It is not one (PEP 751).
    """
    try:
        Pylock.from_dict(lock).validate()
    except PylockValidationError as error:
        raise BuildEnvironmentError(
            f"the lock is not valid: {error}", where=path, next_step="report this with the file uv wrote"
        ) from error
    write_atomic(path, tomli_w.dumps(lock))
    return path


def covered_pythons(
    names: Iterable[str], version: str, machine: str, pythons: Sequence[str], allowed: str
) -> list[str]:
    """Return the Python versions, oldest first and without a gap, for which there is a torch wheel.

    Args:
        names: File names of torch wheels.
        version: The torch, with its local label.
        machine: As in platform tags.
        pythons: Versions that are looked for, such as ``3.11``, oldest first.
        allowed: Python versions that the wheel allows.
    """
    tags: set[str] = set()
    for name in names:
        try:
            _, found, _, supported = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        if found == Version(version):
            tags |= {tag.interpreter for tag in supported if tag.platform == "any" or tag.platform.endswith(machine)}
    covered: list[str] = []
    for python in (one for one in pythons if SpecifierSet(allowed).contains(f"{one}.0")):
        if tags & {f"cp{python.replace('.', '')}", "py3"}:
            covered.append(python)
        elif covered:
            break
    return covered


def _resolved(context: BuildContext, project: Project, environment: Environment) -> Path:
    offer = environment.offer()
    key = make_key(
        layout=2,
        requirements=project.requirements,
        python=[project.requires_python, context.matrix.python],
        platform=[context.target.system, context.target.machine],
        torch=[environment.torch_version, environment.torch_digest, offer.kind, offer.location],
    )
    if context.options.locked and context.store.find(KIND, key) is None:
        raise BuildEnvironmentError("with --locked nothing is resolved", where=FILE, next_step="build without --locked")

    def make(folder: Path) -> None:
        target = context.target
        names = offered_files(offer)
        pythons = covered_pythons(
            names, environment.torch_version, target.machine, context.matrix.python, project.requires_python
        )
        if not pythons:
            raise BuildEnvironmentError(
                f"{offer.location} lists no torch {environment.torch_version} for {target.machine}",
                where=offer.location,
                next_step="make PyTorch's index reachable",
            )
        lock = Resolution(target, project.requirements, offer, pythons, folder, context.logs / "pylock.log").lock()
        _replace_files(context, lock, environment)
        write_lock(lock, folder / FILE)

    return context.store.get(KIND, key, make) / FILE


def _replace_files(context: BuildContext, lock: dict[str, Any], environment: Environment) -> None:
    """Replace files of this machine by what PyTorch's index has under the same name and pinned digest."""
    pin = torch_pin(context.matrix, Version(environment.torch_version).public)
    pinned = {wheel.sha256 for wheel in pin.wheels}
    for package in lock["packages"]:
        for wheel in package.get("wheels", ()):
            url = str(wheel.get("url", ""))
            path = str(wheel.get("path", "")) or url.removeprefix("file://")
            if url and not url.startswith("file://"):
                continue
            if package["name"] != "torch" or wheel["hashes"]["sha256"] not in pinned:
                raise BuildEnvironmentError(
                    f"{path.rpartition('/')[2]} is of this machine, and not one that matrix.yaml pins",
                    where=path,
                    next_step="pin it under `torch` in matrix.yaml",
                )
            wheel.pop("path", None)
            name = path.rpartition("/")[2].replace("%2B", "+")
            wheel["url"] = f"{pin.index_for(context.target.system).rstrip('/')}/{quote(name)}"
