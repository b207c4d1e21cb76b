"""Old spellings of commands and options: they work for one more release, each with a NOTE that names the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from cpuwheels.cli.folders import Folders

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

WORK_UNTIL = "0.2.0"
"""The version that no longer has them."""

COMMANDS = {"check": "parity"}
"""New names of commands by their old ones."""

OPTIONS = {
    "parity": {"--smoke": "--level smoke", "--deep": "--level deep", "--compare": "--against"},
    "bisect": {"--jobs": "--commits-at-once", "--env": "--pass-env"},
    "doctor": {"--requests": "--at-once"},
    "image": {"--check": "--test"},
    "verify-provenance": {"--key": "--trusted-key"},
}
"""By command: the new spelling of each option by its old one, if need be with the value that it stands for."""


class RenamedGroup(click.Group):
    """Commands that also have their old names."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a name, which may be an old one."""
        if args and (new := COMMANDS.get(args[0])):
            _note(ctx, args[0], new)
            args = [new, *args[1:]]
        return super().resolve_command(ctx, args)


class _OldOption(click.Option):
    """An old spelling: what it is given becomes the value of the new option.

    Args:
        old: The old spelling.
        new: The new one, if need be with a value.
        option: The option of that name.
    """

    def __init__(self, old: str, new: str, option: click.Option) -> None:
        _, _, value = new.partition(" ")
        is_flag = bool(value) or option.is_flag
        super().__init__(
            [old, f"old_{old.strip('-').replace('-', '_')}"],
            hidden=True,
            expose_value=False,
            is_flag=is_flag,
            multiple=option.multiple and not is_flag,
        )
        self.old, self.new, self._value, self._option = old, new, value, option

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Hand the value over; options that are given are processed before those that are not.

        Raises:
            click.UsageError: The new spelling is given, too.
        """
        if self.name in opts:
            _note(ctx, self.old, self.new)
            given, name = cast("MutableMapping[str, Any]", opts), self._option.name
            if name in given:
                raise click.UsageError(f"{self.old} is the old spelling of {self.new}; give one of both.", ctx)
            value = given.pop(self.name)
            given[name] = self._value or value
        return None, args


def add_old_spellings(command: click.Command) -> None:
    """Add a command's old spellings of options to it."""
    options = {name: one for one in command.params if isinstance(one, click.Option) for name in one.opts}
    for old, new in OPTIONS.get(command.name or "", {}).items():
        command.params.append(_OldOption(old, new, options[new.partition(" ")[0]]))


def renamed_page() -> str:
    """Return the page that lists them."""
    rows = [f"| `cpuwheels {old}` | `cpuwheels {new}` |" for old, new in COMMANDS.items()]
    rows += [
        f"| `cpuwheels {command} {old}` | `cpuwheels {command} {new}` |"
        for command, options in OPTIONS.items()
        for old, new in options.items()
    ]
    text = f"These work until {WORK_UNTIL}, each with a NOTE. Sessions of nox take the same options."
    return "\n".join(["# Old spellings", "", text, "", "| old | new |", "|---|---|", *rows, ""])


def _note(context: click.Context, old: str, new: str) -> None:
    from cpuwheels.core.console import Reporter

    folders = context.find_object(Folders)
    if context.resilient_parsing or (folders is not None and folders.is_started_anew):
        return  # the process that started this one has printed it
    Reporter("cpuwheels").announce(f"{old} is the old spelling of {new}, and works until version {WORK_UNTIL}")
