"""The lock next to a wheel: ``pylock.toml`` (PEP 751), with the wheel itself and everything that it requires.

It is valid for the wheel's platform and for those Python versions for which the place that torch comes from has a wheel
of it; what was not seen there is not in it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import tomli_w
from packaging.pylock import Pylock, PylockValidationError
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from cpuwheels.config.host import markers
from cpuwheels.core.digests import file_digest, make_key
from cpuwheels.core.errors import BuildEnvironmentError, UnusableWheelError, WheelError
from cpuwheels.core.filesystem import write_atomic
from cpuwheels.core.parse import parse_toml
from cpuwheels.core.urls import without_userinfo
from cpuwheels.environment.torch_index import offered_files, pip_configs, torch_offers, torch_pin, torch_requirement
from cpuwheels.pipeline.lock_resolution import Resolution
from cpuwheels.wheel.kernel_wheel import exact_torch
from cpuwheels.wheel.requirements import sort_requirements
from cpuwheels.wheel.wheel_metadata import read_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from email.message import Message

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.pins import TorchPin
    from cpuwheels.environment.torch_index import TorchOffer
    from cpuwheels.wheel.core_metadata import Project

FILE = "pylock.toml"
KIND = "pylocks"


@dataclass(frozen=True)
class _Required:
    """What is resolved: what a wheel requires, and the place that torch comes from.

    Attributes:
        requirements: Those without an extra.
        pythons: Python versions, as a PEP 440 range in canonical order.
        torch: The torch that it requires, with the label of a CPU build.
        pin: What the matrix says of that torch.
    """

    requirements: tuple[str, ...]
    pythons: str
    torch: str
    pin: TorchPin


def resolve(context: BuildContext, project: Project) -> Path | None:
    """Return the lock of what a wheel requires; None if it is not in the store, and the run is locked.

    It is resolved once and kept: another wheel with the same requirements needs no network. A locked run resolves
    nothing; `lock_wheel` does afterwards.

    Args:
        context: The run.
        project: What the wheel declares.

    Raises:
        BuildEnvironmentError: No place has the torch, or no set of packages meets the requirements.
        UnusableWheelError: Not exactly one version of torch is required.
    """
    return _resolved(context, _required(context, project.name, project.requirements, project.requires_python))


def write_pylock(context: BuildContext, wheel: Path, resolved: Callable[[], Path | None] | None = None) -> Path | None:
    """Write the lock of a wheel next to it, or say why there is none.

    Args:
        context: The run.
        wheel: The file.
        resolved: Returns what `resolve` does for this wheel, or raises its errors; by default that is done now.
    """
    try:
        metadata = read_metadata(wheel)
        found = resolved() if resolved else _resolved(context, _read(context, wheel, metadata))
        if found is None:
            command = f"`nox -s pylock -- {context.target.id} WHEEL`"
            context.reporter.info(f"the wheel has no {FILE} next to it: --locked resolves nothing; {command} does")
            return None
        lock = parse_toml(found.read_bytes(), found)
        own = {
            "name": wheel.name,
            "path": wheel.name,
            "size": wheel.stat().st_size,
            "hashes": {"sha256": file_digest(wheel)},
        }
        lock["packages"].append({"name": metadata["Name"], "version": metadata["Version"], "wheels": [own]})
        lock["packages"].sort(key=lambda package: (package["name"], package.get("version", "")))
        return write_lock(lock, wheel.with_name(FILE))
    except (BuildEnvironmentError, UnusableWheelError, WheelError, OSError) as error:
        reason = str(error) if isinstance(error, OSError) else error.what
        context.reporter.announce(f"the wheel has no {FILE} next to it: {reason}")
        return None


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


def _read(context: BuildContext, wheel: Path, metadata: Message) -> _Required:
    requirements = sort_requirements(metadata.get_all("Requires-Dist", []), metadata.get_all("Provides-Extra", []))
    try:
        pythons = str(SpecifierSet(metadata.get("Requires-Python", "")))
    except InvalidSpecifier as error:
        raise WheelError(f"{wheel.name} has a Requires-Python that is none: {error}", where=wheel) from error
    return _required(context, wheel.name, requirements.always, pythons)


def _required(context: BuildContext, name: str, requirements: tuple[str, ...], pythons: str) -> _Required:
    """Return what is resolved; ``name`` is the wheel's, for messages."""
    torch = exact_torch(Path(name), requirements, markers(context.target, context.matrix.python[0]))
    pin = torch_pin(context.matrix, torch)
    labelled = torch_requirement(torch, pin, context.target).removeprefix("torch==")
    return _Required(requirements, pythons, labelled, pin)


def _resolved(context: BuildContext, wanted: _Required) -> Path | None:
    target, pythons = context.target, context.matrix.python
    offers = torch_offers(wanted.pin, os.environ, pip_configs(os.environ), target.system)
    key = make_key(
        layout=3,
        requirements=wanted.requirements,
        python=[wanted.pythons, pythons],
        platform=[target.system, target.machine],
        torch=[wanted.torch, [[offer.kind, offer.location] for offer in offers]],
    )
    if context.options.locked and context.store.find(KIND, key) is None:
        return None

    def make(folder: Path) -> None:
        offer, covered = _offer(offers, wanted, target.machine, pythons)
        lock = Resolution(target, wanted.requirements, offer, covered, folder, context.logs / "pylock.log").lock()
        _replace_files(context, lock, wanted.pin)
        write_lock(lock, folder / FILE)

    return context.store.get(KIND, key, make) / FILE


def _offer(
    offers: Sequence[TorchOffer], wanted: _Required, machine: str, pythons: Sequence[str]
) -> tuple[TorchOffer, list[str]]:
    """Return the first place that has the torch, as a build looks for it, and the Python versions that it is for."""
    silent: list[str] = []
    for offer in offers:
        try:
            names = offered_files(offer)
        except OSError as error:
            silent.append(str(error))
            continue
        if covered := covered_pythons(names, wanted.torch, machine, pythons, wanted.pythons):
            return offer, covered
    places = ", ".join(without_userinfo(offer.location) for offer in offers)
    raise BuildEnvironmentError(
        "; ".join([f"no place lists a torch {wanted.torch} for {machine} ({places})", *silent]),
        where="torch",
        next_step="make PyTorch's index reachable, or name a folder with the wheel in PIP_FIND_LINKS",
    )


def _replace_files(context: BuildContext, lock: dict[str, Any], pin: TorchPin) -> None:
    """Replace files of this machine by what PyTorch's index has under the same name and pinned digest."""
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
