"""An image pushed to a registry by oras: only layers that the registry lacks are sent."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.image.tools import Tools

_PLACE = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9a-f:]+\])(?P<port>:\d+)?/(?P<name>[a-z0-9._/-]+):(?P<tag>[\w.-]+)")
_KEPT = ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE")


def check_place(place: str) -> str:
    """Return where an image is to be pushed, if it is written in full.

    Args:
        place: ``REGISTRY/NAME:TAG``.

    Raises:
        UsageError: It is not.
    """
    if not _PLACE.fullmatch(place):
        raise UsageError(
            f"{place} names no registry, repository and tag",
            where="--push",
            next_step="write it as in ghcr.io/me/vllm-cpu:0.32.0",
        )
    return place


def push(tools: Tools, layout: Path, tag: str, place: str, environ: Mapping[str, str]) -> None:
    """Push an image, or an index of several with all its images.

    Args:
        tools: With oras.
        layout: An OCI image layout.
        tag: Its name there.
        place: ``REGISTRY/NAME:TAG``; a registry on this machine's loopback address is asked without TLS.
        environ: May name the folder with docker's credentials (``DOCKER_CONFIG``).

    Raises:
        UsageError: The place is not written in full.
        ImageError: The registry does not take it.
    """
    match = _PLACE.fullmatch(check_place(place))
    plain = ["--to-plain-http"] if match and is_loopback(match["host"]) else []
    kept = {name: environ[name] for name in _KEPT if name in environ}
    tools.run(
        "oras",
        "cp",
        "--no-tty",
        *plain,
        "--from-oci-layout",
        f"{layout}:{tag}",
        place,
        env=closed_environment(kept, network=True),
        why=f"{place} was not pushed; log in with docker login, podman login or oras login",
    )


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine's loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
