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

LIBRARY = "CPUWHEELS_VARY_LIBRARY"
"""A library that every command loads (``csrc/vary``), in the second build of `cpuwheels.pipeline.variation`."""

AHEAD = "CPUWHEELS_VARY_SECONDS"
"""By how many seconds it puts the clock forward; not for commands that use the network: certificates would expire."""

ORDER = "CPUWHEELS_VARY_ORDER"
"""A number above 0: in which order it lists the files of folders."""


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
    return env | _varied(network=network) | dict(extra or {})


def use_true_clock() -> None:
    """Let this thread see the true time from now on, also where `AHEAD` puts the clock forward."""
    if AHEAD in os.environ:
        import ctypes  # noqa: PLC0415  (only then)

        # The library is loaded with the program, so its functions are among those of the program itself.
        getattr(ctypes.CDLL(None), "cpuwheels_real_clock", lambda _: None)(1)


def _varied(*, network: bool) -> dict[str, str]:
    """Return what makes a command load the library of the second build; nothing in any other build."""
    if not (library := os.environ.get(LIBRARY)):
        return {}
    names = (LIBRARY, ORDER) if network else (LIBRARY, ORDER, AHEAD)
    # Programs of another machine, which QEMU runs, cannot load it.
    return {"LD_PRELOAD": library, "QEMU_UNSET_ENV": "LD_PRELOAD"} | {
        name: os.environ[name] for name in names if name in os.environ
    }
