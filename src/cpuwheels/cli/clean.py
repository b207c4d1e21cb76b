"""The command that removes from the stores what nobody needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cpuwheels.cli.ranges import NumberRange, Size

if TYPE_CHECKING:
    from cpuwheels.cli.folders import Folders
    from cpuwheels.core.cleaning import Cleaning


@click.command()
@click.option(
    "--older-than",
    "days",
    type=NumberRange(min=0),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Remove what no command used for so long.",
)
@click.option("--down-to", type=Size(), metavar="SIZE", help="Go on, the longest unused first, until so much is left.")
@click.option("--dry-run", is_flag=True, help="Remove nothing; print what would be.")
@click.pass_obj
def clean(folders: Folders, /, days: float, down_to: int | None, dry_run: bool) -> None:
    """Remove from the stores what was not used for long, and what killed runs left.

    What is removed is fetched or built again when it is wanted. What was used in the last day stays, unless
    --older-than says less. Refused while another command uses the stores.
    """
    from rich.console import Console

    from cpuwheels.core import cleaning

    root = folders.store().root
    Console(highlight=False, soft_wrap=True).print(f"stores: {root}", markup=False)
    _print(cleaning.clean(root, days=days, down_to=down_to, dry_run=dry_run), dry_run=dry_run)


def _print(done: Cleaning, *, dry_run: bool) -> None:
    from rich.console import Console

    from cpuwheels.core.tables import Column, Table
    from cpuwheels.core.units import format_size

    console = Console(highlight=False)
    if done.kinds:
        names = ("entries", "size", "would go" if dry_run else "removed", "freed")
        table = Table((Column("kind"), *(Column(name, right=True) for name in names)))
        for kind in done.kinds:
            gone = (str(kind.removed), format_size(kind.freed)) if kind.removed else ("", "")
            table.add_row(kind.name, str(kind.entries), format_size(kind.size), *gone)
        table.print(console)
    verb = "would be freed" if dry_run else "freed"
    console.print(f"{format_size(done.freed)} of {format_size(done.size)} {verb}")
