"""Python's headers for a target that has no sysroot to bring them.

The modules use only the stable ABI, of which these headers take the sizes of C's types from ``pyconfig.h``: those of
any LP64 system will do. Debian installs one such file for each machine, and a common one that picks it by the
system's macros; the machine's own takes its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import ToolchainError
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.debian.root import content_key, unpacked_root

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.debian_lock import DebianLock

KIND = "sysroots"
RECIPE = 1
"""Increased when the same packages would give other headers."""


def headers_key(lock: DebianLock) -> str:
    """Return the key of a lock's headers, the same wherever they lie."""
    return make_key(content=content_key(lock), python_headers=RECIPE)


def python_headers(context: BuildContext, lock: DebianLock) -> Path:
    """Return the folder with a lock's Python headers, unpacking them if need be.

    Raises:
        ToolchainError: The packages hold none.
        DownloadError: A package cannot be fetched.
    """
    root = unpacked_root(
        lock,
        KIND,
        mirrors=debian_mirrors(context),
        store=context.store,
        reporter=context.reporter,
        finish=lambda fresh, _: settle(fresh),
        finish_key=headers_key(lock),
    )
    return _folder(root)


def settle(root: Path) -> None:
    """Put the machine's ``pyconfig.h`` where ``Python.h`` looks first, next to itself.

    Raises:
        ToolchainError: There are no headers, or none of the machine.
    """
    folder = _folder(root)
    found = sorted((root / "usr/include").glob(f"*/{folder.name}/pyconfig.h"))
    if not found:
        raise _none(root, "pyconfig.h of a machine")
    found[0].replace(folder / "pyconfig.h")


def _folder(root: Path) -> Path:
    found = sorted((root / "usr/include").glob("python3.*/Python.h"))
    if not found:
        raise _none(root, "Python.h")
    return found[-1].parent


def _none(root: Path, what: str) -> ToolchainError:
    return ToolchainError(
        f"the packages of Python's headers hold no {what}",
        where=root / "usr/include",
        next_step="add libpython3-dev to the lock's suites and run `nox -s lock`",
    )
