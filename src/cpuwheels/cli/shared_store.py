"""A shared store on the command line of what builds: ``--store PLACE``, and whose signatures count there."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cpuwheels.core.elsewhere import KEY_VARIABLE, STORE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

_PATH = click.Path(path_type=Path)
_OPTIONS = (
    click.option(
        "--store",
        metavar="PLACE",
        envvar=STORE_VARIABLE,
        help="Take kernels that others built from this folder, s3://bucket/prefix or https://…, if it has them.",
    ),
    click.option(
        "--store-key",
        "store_keys",
        type=_PATH,
        multiple=True,
        envvar=KEY_VARIABLE,
        help="With --store: take what this public key's file signed; may be repeated.",
    ),
    click.option("--unsigned-store", is_flag=True, help="With --store: take what anybody could write there."),
)


def takes_from_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a shared store to a command, and let its stores ask that one; next to the function.

    Args:
        command: Run by click; it is not given these options.
    """

    @functools.wraps(command)
    def run(
        *arguments: Any,  # noqa: ANN401  (whatever the command takes)
        store: str | None,
        store_keys: tuple[Path, ...],
        unsigned_store: bool,
        **options: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        # What this process starts is told by its own options, or builds everything itself.
        for name in (STORE_VARIABLE, KEY_VARIABLE):
            os.environ.pop(name, None)
        if store is None or options.get("part") == "publish":  # where nothing is built, nothing is taken
            if store is None:
                _refuse_alone(store_keys, unsigned=unsigned_store)
            return command(*arguments, **options)
        from cpuwheels.cli.provenance import require_libraries
        from cpuwheels.core.console import Reporter
        from cpuwheels.core.elsewhere import taken_from
        from cpuwheels.shared.options import StoreChoice, open_shared

        if store_keys:
            require_libraries()
        reporter = Reporter("store")
        shared = open_shared(
            StoreChoice(store, store_keys, unsigned_store),
            reporter.announce,
            locked=bool(options.get("locked")),
            tell=reporter.info,
        )
        with taken_from(shared):
            return command(*arguments, **options)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def _refuse_alone(keys: tuple[Path, ...], *, unsigned: bool) -> None:
    """Refuse options that are of no use without a shared store.

    Raises:
        UsageError: One is given.
    """
    from cpuwheels.core.errors import UsageError

    if keys or unsigned:
        raise UsageError(
            "there is no shared store",
            where="--unsigned-store" if unsigned else "--store-key",
            next_step="name it with --store, or leave the option out",
        )
