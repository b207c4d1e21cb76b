"""Paths of archive members, checked before anything is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.text import printable

if TYPE_CHECKING:
    from cpuwheels.core.limits import ArchiveLimits


class PathFaultError(Exception):
    """A path that may not be unpacked; the message has it, safe for a terminal."""


def path_parts(name: str, limits: ArchiveLimits) -> tuple[str, ...]:
    """Return the parts of a member's path; none for ``.`` itself.

    Args:
        name: The path, with slashes; ``.`` and empty parts inside of it are left out.
        limits: How long it may be.

    Raises:
        PathFaultError: It is absolute, goes upwards, is too long, or is not text that can be shown.
    """
    shown = printable(name[: limits.path])
    if shown != name[: limits.path]:
        raise PathFaultError(f"{shown} has characters that no path here may have")
    if len(name) > limits.path or len(name.encode()) > limits.path:
        raise PathFaultError(f"{shown[:80]}… is longer than {limits.path} bytes")
    if name.startswith("/"):
        raise PathFaultError(f"{shown} is absolute")
    parts = tuple(part for part in name.split("/") if part not in {"", "."})
    if ".." in parts:
        raise PathFaultError(f"{shown} leads outside")
    if len(parts) > limits.depth:
        raise PathFaultError(f"{shown[:80]}… has more than {limits.depth} folders")
    if any(len(part.encode()) > limits.name for part in parts):
        raise PathFaultError(f"{shown[:80]}… has a part longer than {limits.name} bytes")
    return parts
