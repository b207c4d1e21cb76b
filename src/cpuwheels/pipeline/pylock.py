"""The lock next to a wheel: ``pylock.toml`` (PEP 751), with the wheel itself and everything that it requires.

It is valid for the wheel's platform and for those Python versions for which the place that torch comes from has a wheel
of it; what was not seen there is not in it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
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
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.pins import TorchPin
    from cpuwheels.environment.torch_index import TorchOffer

FILE = "pylock.toml"
KIND = "pylocks"


@dataclass(frozen=True)
class _Declared:
    """What is resolved of a wheel's metadata, and the place that torch comes from.

    Attributes:
        name: Of the distribution.
        version: With its local label.
        requirements: Those without an extra.
        pythons: Python versions, as a PEP 440 range in canonical order.
        torch: The torch that it requires, with the label of a CPU build.
        pin: What the matrix says of that torch.
    """

    name: str
    version: str
    requirements: tuple[str, ...]
    pythons: str
    torch: str
    pin: TorchPin


def write_pylock(context: BuildContext, wheel: Path) -> Path | None:
    """Write the lock of a wheel next to it, or say why there is none.

    What the wheel requires is resolved once and kept: another wheel with the same requirements needs no network. A
    locked run resolves nothing; `lock_wheel` does afterwards.

    Args:
        context: The run.
        wheel: The file.
    """
    try:
        resolved = _resolved(context, declared := _declared(context, wheel))
        if resolved is None:
            command = f"`nox -s pylock -- {context.target.id} WHEEL`"
            context.reporter.info(f"the wheel has no {FILE} next to it: --locked resolves nothing; {command} does")
            return None
        lock = parse_toml(resolved.read_bytes(), resolved)
        own = {
            "name": wheel.name,
            "path": wheel.name,
            "size": wheel.stat().st_size,
            "hashes": {"sha256": file_digest(wheel)},
        }
        lock["packages"].append({"name": declared.name, "version": declared.version, "wheels": [own]})
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


def _declared(context: BuildContext, wheel: Path) -> _Declared:
    metadata, target = read_metadata(wheel), context.target
    lines = metadata.get_all("Requires-Dist", [])
    requirements = sort_requirements(lines, metadata.get_all("Provides-Extra", [])).always
    torch = exact_torch(wheel, requirements, markers(target, context.matrix.python[0]))
    pin = torch_pin(context.matrix, torch)
    try:
        pythons = str(SpecifierSet(metadata.get("Requires-Python", "")))
    except InvalidSpecifier as error:
        raise WheelError(f"{wheel.name} has a Requires-Python that is none: {error}", where=wheel) from error
    labelled = torch_requirement(torch, pin, target).removeprefix("torch==")
    return _Declared(metadata["Name"], metadata["Version"], requirements, pythons, labelled, pin)


def _resolved(context: BuildContext, wheel: _Declared) -> Path | None:
    """Return the lock of what a wheel requires; None if it is not in the store, and the run is locked."""
    target, pythons = context.target, context.matrix.python
    offers = torch_offers(wheel.pin, os.environ, pip_configs(os.environ), target.system)
    key = make_key(
        layout=3,
        requirements=wheel.requirements,
        python=[wheel.pythons, pythons],
        platform=[target.system, target.machine],
        torch=[wheel.torch, [[offer.kind, offer.location] for offer in offers]],
    )
    if context.options.locked and context.store.find(KIND, key) is None:
        return None

    def make(folder: Path) -> None:
        offer, covered = _offer(offers, wheel, target.machine, pythons)
        lock = Resolution(target, wheel.requirements, offer, covered, folder, context.logs / "pylock.log").lock()
        _replace_files(context, lock, wheel.pin)
        write_lock(lock, folder / FILE)

    return context.store.get(KIND, key, make) / FILE


def _offer(
    offers: Sequence[TorchOffer], wheel: _Declared, machine: str, pythons: Sequence[str]
) -> tuple[TorchOffer, list[str]]:
    """Return the first place that has the torch, as a build looks for it, and the Python versions that it is for."""
    silent: list[str] = []
    for offer in offers:
        try:
            names = offered_files(offer)
        except OSError as error:
            silent.append(str(error))
            continue
        if covered := covered_pythons(names, wheel.torch, machine, pythons, wheel.pythons):
            return offer, covered
    places = ", ".join(without_userinfo(offer.location) for offer in offers)
    raise BuildEnvironmentError(
        "; ".join([f"no place lists a torch {wheel.torch} for {machine} ({places})", *silent]),
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
