"""The variables that a bisection's command or script gets: those of a list, and those that the user names."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cpuwheels.config.credentials import sift
from cpuwheels.core.environ import KEPT, NETWORK_KEPT
from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PASSED = (*KEPT, *NETWORK_KEPT, "LANGUAGE", "LC_*", "TZ", "TERM", "SHELL", "CPUWHEELS_*")
"""Patterns of names; what looks like a credential, or has a user name in a URL, is left out all the same."""

REFUSED = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "VIRTUAL_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT")
"""Variables that would put something else in the place of the wheel or its libraries."""


def command_environment(environ: Mapping[str, str], named: Sequence[str] = ()) -> dict[str, str]:
    """Return what a command inherits.

    Args:
        environ: The user's environment.
        named: Variables that the user hands to the command on purpose.
    """
    harmless = sift(environ).harmless
    passed = {name: value for name, value in harmless.items() if any(fnmatchcase(name, one) for one in PASSED)}
    return passed | named_variables(environ, named)


def named_variables(environ: Mapping[str, str], named: Sequence[str]) -> dict[str, str]:
    """Return the variables that the user names."""
    return {name: environ[name] for name in named if name in environ}


def check_names(environ: Mapping[str, str], named: Sequence[str]) -> None:
    """Refuse names that are not set, or would replace what is tested.

    Raises:
        UsageError: A name is one of these.
    """
    for name in named:
        if name in REFUSED:
            raise UsageError(
                f"{name} would replace what is tested",
                where=f"--pass-env {name}",
                next_step="leave it out, or set it within the command",
            )
        if name not in environ:
            raise UsageError(
                f"the variable {name} is not set",
                where=f"--pass-env {name}",
                next_step="export it, or leave the option out",
            )
