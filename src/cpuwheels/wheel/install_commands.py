"""The commands that install a wheel, as index pages, the documentation and the end of a build show them.

A wheel requires the CPU build of torch, which PyTorch's own index has and PyPI has not. PyPI also has a ``vllm``, for
CUDA and often newer, but it takes no version with a local label: ``vllm==0.32.0+cpu`` can only come from an index of
these wheels.
"""

from __future__ import annotations

import shlex
from urllib.parse import quote

from cpuwheels.fetch.vllm_wheels import PROJECT

TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
"""What ``--torch-backend cpu`` means to uv."""

_TORCH = "--torch-backend cpu"


def uv_command(view: str, version: str) -> str:
    """Return the command that makes uv install one version.

    Args:
        view: URL of the index's view that lists it.
        version: With its local label.
    """
    return f"uv pip install {PROJECT}=={version} --index {view} {_TORCH}"


def pip_command(view: str, version: str) -> str:
    """Return the same for pip, which knows no order of indexes: without the version it takes PyPI's.

    Args:
        view: URL of the index's view that lists it.
        version: With its local label.
    """
    return f"pip install {PROJECT}=={version} --extra-index-url {view} --extra-index-url {TORCH_INDEX}"


def newest_command(view: str) -> str:
    """Return the command that makes uv install the newest version that a view lists, whatever is installed.

    Only the first index that has a package is asked for it: uv's default, which its settings can change. The installed
    version is replaced in any case: uv would keep a release, which it prefers to a pre-release, and wheels of commits
    are pre-releases.

    Args:
        view: URL of the view.
    """
    newest = f"--reinstall-package {PROJECT} {PROJECT}"
    return f"uv pip install {newest} --index {view} --index-strategy first-index {_TORCH}"


def locked_commands(folder: str, wheel: str, lock: str, *, by_url: bool) -> dict[str, str]:
    """Return the commands that install a published wheel and what it requires from its lock, by the program's name.

    Args:
        folder: URL of the folder with both.
        wheel: File name of the wheel.
        lock: File name of the lock.
        by_url: Whether the lock names the wheel by its URL. uv reads a path only in a lock that is on disk.
    """
    url = f"{folder}/{lock}"
    stem, dot, ending = lock.rpartition(".")
    own = f"{stem}.{PROJECT}{dot}{ending}"
    fetch = f"curl --fail-early -fsSL {url} -o {own} {folder}/{quote(wheel)} -o {wheel}"
    return {
        "uv": f"uv pip install -r {url}" if by_url else f"{fetch} && uv pip install -r {own}",
        "pip": f"pip install -r {url}",
    }


def file_command(wheel: str, *, labelled: bool = True) -> str:
    """Return the command that makes uv install a wheel from its file.

    Args:
        wheel: Its path.
        labelled: Whether the torch that it requires has a local label, which only PyTorch's index has.
    """
    return f"uv pip install {shlex.quote(wheel)}{f' {_TORCH}' if labelled else ''}"


def pip_file_command(wheel: str, *, labelled: bool = True) -> str:
    """Return the same for pip.

    Args:
        wheel: Its path.
        labelled: As for `file_command`.
    """
    return f"pip install {shlex.quote(wheel)}{f' --extra-index-url {TORCH_INDEX}' if labelled else ''}"
