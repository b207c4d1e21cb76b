"""Paths on the command line: neither empty, as from an unset variable, nor a folder where a wheel is meant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

WHEEL = click.Path(path_type=Path, dir_okay=False)
"""A wheel's file, which need not be there."""


class GivenPath(click.Path):
    """A path that is not empty, and no folder where a file is asked for.

    Args:
        path: What else is asked of it.
    """

    def __init__(self, path: click.Path) -> None:
        super().__init__()
        vars(self).update(vars(path))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401  (click's)
        """Return the path."""
        if value == "":
            self.fail("the path is empty; is a variable not set?", param, ctx)
        if not self.dir_okay and Path(value).is_dir():
            self.fail(f"{value} is a folder, not a file", param, ctx)
        return super().convert(value, param, ctx)


def check_paths(parameters: Sequence[click.Parameter]) -> None:
    """Let parameters that are paths refuse what no path is."""
    for parameter in parameters:
        if isinstance(parameter.type, click.Path):
            parameter.type = GivenPath(parameter.type)
