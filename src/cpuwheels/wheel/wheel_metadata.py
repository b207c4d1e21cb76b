"""What a wheel's metadata says: its ``METADATA``, and the torch that it requires where it is installed."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cpuwheels.core.errors import UnusableWheelError, WheelError
from cpuwheels.core.text import parse_headers
from cpuwheels.wheel.dist_info import dist_info_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from email.message import Message
    from pathlib import Path

_SYSTEMS = {"manylinux": "Linux", "musllinux": "Linux", "linux": "Linux", "macosx": "Darwin"}
_MACHINES = ("x86_64", "aarch64", "arm64", "s390x", "ppc64le", "riscv64")


def read_metadata(wheel: Path) -> Message:
    """Return the headers of a wheel's ``METADATA``.

    Raises:
        UnusableWheelError: It is not a wheel.
    """
    try:
        parse_wheel_filename(wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            text = archive.read(f"{dist_info_of(archive.namelist())}/METADATA")
    except (OSError, KeyError, zipfile.BadZipFile, InvalidWheelFilename, WheelError) as error:
        why = "is not a wheel" if wheel.exists() else "is not there"
        raise UnusableWheelError(f"{wheel} {why}", where=wheel, next_step="give the path of a wheel") from error
    return parse_headers(text)


def required_torch(requirements: Iterable[str], wheel: str) -> str:
    """Return what a wheel requires of torch on the machines that its platform tag names, such as ``==2.13.0+cpu``.

    Args:
        requirements: Its ``Requires-Dist``.
        wheel: Its file name.

    Returns:
        The specifier; empty if it does not require torch there, or takes any version.
    """
    environment: dict[str, str] = {**default_environment(), **_platform(wheel), "extra": ""}  # type: ignore[dict-item]
    for text in requirements:
        requirement = Requirement(text)
        if requirement.name == "torch" and (requirement.marker is None or requirement.marker.evaluate(environment)):
            return str(requirement.specifier)
    return ""


def _platform(wheel: str) -> dict[str, str]:
    """Return the markers of the machines that a wheel is for."""
    platform = min(tag.platform for tag in parse_wheel_filename(wheel)[3])
    system = next((name for start, name in _SYSTEMS.items() if platform.startswith(start)), "")
    machine = next((name for name in _MACHINES if platform.endswith(f"_{name}")), "")
    return {"platform_machine": machine, "platform_system": system, "sys_platform": system.lower()}
