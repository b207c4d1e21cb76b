"""Empty paths, as from a variable of the shell that is not set, are refused; they would mean the working folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


class GivenPath(click.Path):
    """A path that is not empty.

    Args:
        path: What else is asked of it.
    """

    def __init__(self, path: click.Path) -> None:
        super().__init__(
            exists=path.exists,
            file_okay=path.file_okay,
            dir_okay=path.dir_okay,
            writable=path.writable,
            readable=path.readable,
            resolve_path=path.resolve_path,
            allow_dash=path.allow_dash,
            path_type=path.type,
            executable=path.executable,
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401  (click's)
        """Return the path."""
        if value == "":
            self.fail("the path is empty; is a variable not set?", param, ctx)
        return super().convert(value, param, ctx)


def refuse_empty_paths(parameters: Sequence[click.Parameter]) -> None:
    """Let parameters that are paths refuse an empty one."""
    for parameter in parameters:
        if isinstance(parameter.type, click.Path):
            parameter.type = GivenPath(parameter.type)
