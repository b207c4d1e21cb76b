"""A published wheel on the command line: which one is meant, and what is believed of it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from cpuwheels.cli.index_place import READ, index_option, web_address
from cpuwheels.cli.provenance import TrustOptions, trust_of, trust_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.rebuild.preparation import WheelChoice


def wheel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which wheel is meant, and what is believed of it."""
    options: list[Callable[..., Any]] = [
        index_option(f"{READ}; WHEEL is then a version, or a commit's hash, that it has."),
        click.option("--target", help="Target id, where an index has several (default: this machine's own)."),
        click.option(
            "--cpuwheels-repo",
            "repositories",
            multiple=True,
            metavar="PLACE",
            help="A clone or an address of cpuwheels that you trust; may be repeated.",
        ),
        click.option(
            "--cpuwheels", "commit", metavar="COMMIT", help="The cpuwheels that built it, if nothing else says it."
        ),
        trust_options,
    ]
    for option in reversed(options):
        command = option(command)
    return command


class WheelOptions(TrustOptions):
    """Which wheel is meant, and what is believed of it, as click names the options."""

    index: str | None
    target: str | None
    repositories: tuple[str, ...]
    commit: str | None


def index_of(given: WheelOptions) -> AbstractContextManager[str | None]:
    """Return a context with the address of the index that is given, if one is."""
    return contextlib.nullcontext() if given["index"] is None else web_address(given["index"])


def choice_of(wheel: str, index: str | None, given: WheelOptions) -> WheelChoice:
    """Return which wheel is meant, and what is believed of it."""
    from cpuwheels.rebuild.preparation import WheelChoice

    trusted: TrustOptions = {
        "trusted_keys": given["trusted_keys"],
        "identity": given["identity"],
        "issuer": given["issuer"],
        "trust_config": given["trust_config"],
    }
    named = bool(trusted["trusted_keys"] or trusted["identity"] or trusted["issuer"])
    trust = trust_of(trusted) if named else None
    called = (index, given["index"]) if index and given["index"] else None
    return WheelChoice(wheel, index, given["commit"], given["repositories"], trust, called)


def target_of(matrix: Matrix, name: str | None) -> Target:
    """Return a target by its id; this machine's own when None."""
    from cpuwheels.config.host import default_target

    return matrix.target(name) if name else default_target(matrix)
