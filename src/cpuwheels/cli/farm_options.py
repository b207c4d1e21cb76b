"""A farm on the command line: ``--farm ADDRESS``, its certificates, and what has to be installed for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cpuwheels.farm.site import FARM_VARIABLE, KEYS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.farm.opinion import Opinions
    from cpuwheels.farm.remote import RemoteExecutor

EXTRA = "cpuwheels[farm]"
"""What has the libraries."""

KEYS = "farm/keys"
"""Folder of the certificates below the output folder, unless another one is named."""

farm_keys = click.option(
    "--farm-keys",
    type=click.Path(path_type=Path),
    envvar=KEYS_VARIABLE,
    help="Folder of the farm's certificates (default: dist/farm/keys).",
)


PRIORITY = click.option(
    "--priority",
    type=click.IntRange(-100, 100),
    default=0,
    show_default=True,
    help="On a farm: jobs of a higher one go first.",
)

SECOND_OPINION = click.option(
    "--second-opinion",
    is_flag=True,
    help="On a farm: take a wheel only if two machines made the same bytes by themselves.",
)

WORKERS_OWN = "the workers of a farm have shares of their own"


def farm_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the option ``--farm``.

    Args:
        text: Its help.
    """
    return click.option("--farm", metavar="ADDRESS", envvar=FARM_VARIABLE, help=text)


def uses_farm(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that can send its jobs to a farm."""
    address = farm_option("Have builds done by the farm with this scheduler, such as tls://host:8786.")
    return address(farm_keys(command))


def refuse_alone(farm: str | None, *, second_opinion: bool = False, priority: int = 0) -> None:
    """Refuse options that mean nothing without a farm.

    Raises:
        UsageError: One is given.
    """
    from cpuwheels.core.errors import UsageError

    if farm is None and (second_opinion or priority):
        raise UsageError(
            "one machine has only its own opinion" if second_opinion else "one machine has one order of jobs",
            where="--second-opinion" if second_opinion else "--priority",
            next_step="leave it out, or send the jobs to a farm with --farm",
        )


def opinions_of(farm: RemoteExecutor, reporter: Reporter, *, wanted: bool) -> Opinions | None:
    """Return who asks a farm's other workers about wheels; None if no second opinion is wanted."""
    from cpuwheels.farm.opinion import Opinions

    return Opinions(farm, reporter.announce, farm.leave_out) if wanted else None


def require_dask() -> None:
    """Refuse to go on without what a farm consists of.

    Raises:
        UsageError: It is not installed.
    """
    from cpuwheels.config.installation import require_installed

    libraries = ("distributed", "securesystemslib", "cryptography")
    require_installed("a farm needs", libraries, f"pip install '{EXTRA}'")


def keys_folder(paths: Paths, given: Path | None) -> Path:
    """Return the folder of the certificates."""
    return given.expanduser().resolve() if given else paths.dist / KEYS


def open_farm(paths: Paths, address: str, keys: Path | None) -> RemoteExecutor:
    """Return the executor of a farm.

    Raises:
        UsageError: What a farm needs is not installed, or the address is none of TLS.
        FarmError: It does not answer, or there are no certificates.
    """
    from cpuwheels.core.errors import UsageError

    if not address.startswith("tls://"):
        raise UsageError(
            f"{address!r:.200} is no address of a farm",
            where="--farm",
            next_step="give the one that cpuwheels farm up prints, such as tls://127.0.0.1:8786",
        )
    require_dask()
    from cpuwheels.farm.remote import RemoteExecutor
    from cpuwheels.farm.security import read_certificates

    return RemoteExecutor(address, read_certificates(keys_folder(paths, keys)))
