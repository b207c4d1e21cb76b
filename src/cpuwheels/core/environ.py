"""The environment of child processes: only what a build may depend on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

KEPT = ("HOME", "PATH", "LANG", "TMPDIR", "USER", "LOGNAME", "XDG_CACHE_HOME")
"""Variables a closed environment takes over from the caller; everything else must be passed on purpose."""

NETWORK_KEPT = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
)
"""Variables that commands which use the network take over as well: certificates and proxies."""


def closed_environment(
    extra: Mapping[str, str] | None = None, *, path_first: Sequence[Path] = (), network: bool = False
) -> dict[str, str]:
    """Return an environment with only what a build may depend on.

    Args:
        extra: Variables to set on top.
        path_first: Folders put in front of ``PATH``.
        network: Whether certificate and proxy settings are passed on.
    """
    names = KEPT + NETWORK_KEPT if network else KEPT
    env = {name: os.environ[name] for name in names if name in os.environ}
    env |= {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    folders = [str(folder) for folder in path_first]
    env["PATH"] = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
    return env | dict(extra or {})
