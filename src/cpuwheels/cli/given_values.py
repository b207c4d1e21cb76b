"""Values on the command line: none is empty, as from an unset variable, and no folder is taken for a wheel."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def check_values(parameters: Sequence[click.Parameter]) -> None:
    """Let parameters refuse what is empty, and those that are paths what no path is."""
    for parameter in parameters:
        if isinstance(parameter.type, click.Path):
            parameter.type = GivenPath(parameter.type)
        else:
            parameter.callback = partial(_given, parameter.callback)


def _given(
    callback: Callable[[click.Context, click.Parameter, Any], Any] | None,
    context: click.Context,
    parameter: click.Parameter,
    value: Any,  # noqa: ANN401  (of any type)
) -> Any:  # noqa: ANN401
    """Refuse an empty text that was given, and do what else was to be done with the value."""
    given = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    if given and "" in (value if isinstance(value, tuple) else (value,)):
        raise click.BadParameter("the text is empty; is a variable not set?", context, parameter)
    return callback(context, parameter, value) if callback else value
