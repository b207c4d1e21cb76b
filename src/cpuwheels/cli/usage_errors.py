"""What click finds wrong with a command line, as messages of this project: what, where, and the next step."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from cpuwheels.config.installation import command_line
from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

PER_TARGET = frozenset({"build", "parity", "serve", "image", "verify", "kernel-bench"})
"""Commands that have one session of nox for each target."""


def usage_error(error: click.ClickException) -> UsageError:
    """Return the message for what click found."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command, name = (context.command, _name(context)) if context else (None, "")
    asked, known = "", list[str]()
    what = error.format_message().rstrip(".")
    match error:
        case click.NoSuchOption():
            asked, known = error.option_name, _options(command)
            what = f"{name or 'cpuwheels'} has no option {asked}"
        case click.NoSuchCommand():
            asked, known = error.command_name, _commands(command)
            what = f"there is no command '{asked}'"
        case click.MissingParameter() if context:
            what = f"{name} needs {' and '.join(_missing(context))}"
        case click.BadParameter() if error.param:
            hint = error.param_hint or error.param.get_error_hint(context)
            shown = hint if isinstance(hint, str) else " / ".join(hint)
            what = f"{shown.replace(chr(39), '')}: {_plain(error.message)}"
    near = get_close_matches(asked, known, 1, 0.7) if asked else []
    words = [f"did you mean {near[0]}?"] if near else []
    words.append(_help(name) if context else "--help shows all options")
    return UsageError(what, where="command line", next_step=" ".join(words))


def _plain(message: str) -> str:
    """Return a message of click in the words of people who do not know its types."""
    return message.rstrip(".").replace("valid integer range", "whole number").replace("valid float range", "number")


def _name(context: click.Context) -> str:
    """Return the command's name; nothing for the group of all."""
    return "" if context.parent is None else context.command.name or ""


def _help(name: str) -> str:
    if not name:
        return "cpuwheels --help shows all commands"
    return f"{command_line(name, 'TARGET' if name in PER_TARGET else '', '--help')} shows all options"


def _options(command: click.Command | None) -> list[str]:
    shown: Iterable[click.Parameter] = command.params if command else ()
    options = [one for one in shown if isinstance(one, click.Option) and not one.hidden]
    return [*(name for one in options for name in (*one.opts, *one.secondary_opts)), "--help"]


def _commands(group: click.Command | None) -> list[str]:
    return [name for name, one in group.commands.items() if not one.hidden] if isinstance(group, click.Group) else []


def _missing(context: click.Context) -> list[str]:
    """Return what the command needs and was not given; what is given is parsed first."""
    needed = [one for one in context.command.params if one.required and context.params.get(one.name or "") is None]
    return [one.opts[0] if isinstance(one, click.Option) else one.make_metavar(context) for one in needed]
