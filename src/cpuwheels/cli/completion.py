"""Completion in a shell: the scripts for bash, zsh and fish, and what a word on the command line may become."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
)

from cpuwheels.cli.folders import Folders

if TYPE_CHECKING:
    from collections.abc import Iterator

    _Type = click.ParamType[str]
else:
    _Type = click.ParamType

PROGRAM = "cpuwheels"
VARIABLE = "_CPUWHEELS_COMPLETE"
"""With ``bash_source``, ``zsh_source`` or ``fish_source`` as its value, the program prints the script of that shell."""

SCRIPTS = {
    "bash": "bash-completion/completions/cpuwheels",
    "zsh": "zsh/site-functions/_cpuwheels",
    "fish": "fish/vendor_completions.d/cpuwheels.fish",
}
"""Shell → where it looks for its script, below ``share``."""


@add_completion_class
class ZshScript(ZshComplete):
    """click's script for zsh, which also works from the path of functions, and there not only at the first key.

    zsh makes the file a function of its name. click's script sees that it is one only while zsh loads it.
    """

    source_template = ZshComplete.source_template.replace(
        "$zsh_eval_context[-1] == loadautofunc", f"$funcstack[1] == {Path(SCRIPTS['zsh']).name}"
    )


class TargetType(_Type):
    """A target: any word on the command line; a completion offers those of matrix.yaml."""

    name = "target"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Return the targets that begin like a word, and for the doctor's ``--runtime`` files."""
        from cpuwheels.config.matrix import load_matrix
        from cpuwheels.core.errors import CpuwheelsError

        del param
        if ctx.params.get("runtime"):
            return [CompletionItem(incomplete, type="file")]
        try:
            targets = load_matrix(ctx.ensure_object(Folders).paths().matrix).targets
        except (CpuwheelsError, OSError):
            return []  # a line that is being typed is no place for a message
        return [CompletionItem(one.id, help=one.description) for one in targets if one.id.startswith(incomplete)]


class WheelType(_Type):
    """A wheel: any word on the command line, also an address; a completion offers files."""

    name = "wheel"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Leave it to the shell, which knows the files."""
        del ctx, param
        return [CompletionItem(incomplete, type="file")]


_TYPES: dict[str, _Type] = {
    "target": TargetType(),
    "targets": TargetType(),
    "wheel": WheelType(),
    "wheels": WheelType(),
}
"""By the name of an argument or option that takes any text."""


def complete_values(command: click.Command) -> None:
    """Have the values of a command's arguments and options completed by what their names say they are."""
    for param in command.params:
        if param.type is click.STRING and param.name in _TYPES:
            param.type = _TYPES[param.name]


def completion_scripts(cli: click.Command) -> Iterator[tuple[str, str]]:
    """Yield each shell's script: its place below ``share``, and its text."""
    for shell, place in SCRIPTS.items():
        found = get_completion_class(shell)
        assert found is not None  # noqa: S101  (click has all three)
        # click's own for bash runs the bash of this machine first, to see whether it is new enough.
        yield place, ShellComplete.source(found(cli, {}, PROGRAM, VARIABLE)).rstrip("\n") + "\n"
