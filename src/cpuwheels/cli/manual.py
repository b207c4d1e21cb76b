"""The manual page, cpuwheels(1), written from the commands themselves: what ``--help`` prints, for all of them."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click

from cpuwheels.cli.completion import PROGRAM, completion_scripts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PLACE = "man/man1/cpuwheels.1"
"""Below ``share``."""

_HEAD = (
    '.\\" Written by nox -s schema from the commands of the command line.\n.TH CPUWHEELS 1 "" cpuwheels "User Commands"'
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_ENVIRONMENT = {
    "CPUWHEELS_CACHE": "The folder of the stores, where --cache does not name one.",
    "CPUWHEELS_STORE": "The shared store, where --store does not name one.",
    "CPUWHEELS_STORE_KEY": "Files of public keys, divided by colons, where --store-key does not name one.",
    "NO_COLOR": "If it is set to anything, nothing that is printed has colours.",
    "_CPUWHEELS_COMPLETE": "Set to bash_source, zsh_source or fish_source, the program prints the completion of that "
    "shell.",
}


def manual_page(cli: click.Group, exit_codes: Iterable[tuple[int, str]]) -> str:
    """Return the manual page in roff, by the conventions of man(7).

    It has no date and no version, so the same commands give the same bytes.

    Args:
        cli: The command line.
        exit_codes: Each exit code with its meaning, as in docs/reference/exit-codes.md.
    """
    context = click.Context(cli, info_name=PROGRAM, **cli.context_settings)
    own = cli.get_params(context)
    shared = {option for param in own for option in param.opts}
    text = inspect.cleandoc(cli.help or "")
    parts = [
        _HEAD,
        f".SH NAME\ncpuwheels \\- {_escape(_lower(text))}",
        ".SH SYNOPSIS\n.B cpuwheels\n.RI [ OPTIONS ]\n.I COMMAND\n.RI [ ARGUMENTS ]",
        ".SH DESCRIPTION",
        *_prose(text),
        ".SH OPTIONS\n" + _escape("They may be given in front of the command and behind it."),
        *_options(context, own, ()),
        ".SH COMMANDS",
    ]
    for name in sorted(cli.commands):
        parts += _command(click.Context(cli.commands[name], info_name=name, parent=context), shared)
    parts += [".SH EXIT STATUS", _row("0", "Done."), *(_row(str(code), meaning) for code, meaning in exit_codes)]
    parts += [".SH ENVIRONMENT", *(_row(name, meaning) for name, meaning in _ENVIRONMENT.items())]
    return "\n".join(parts) + "\n"


def _command(context: click.Context, shared: set[str]) -> Iterator[str]:
    """Yield the section of one command; the options that all have are left out."""
    command = context.command
    if command.hidden:
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {PROGRAM} {_escape(str(context.info_name))}"
    yield f".B {PROGRAM} {_escape(str(context.info_name))}\n{_line(usage)}\n.PP"
    yield from _prose(inspect.cleandoc(command.help or ""))
    yield from _options(context, command.get_params(context), shared)


def _options(context: click.Context, params: Iterable[click.Parameter], without: Iterable[str]) -> Iterator[str]:
    for param in params:
        record = param.get_help_record(context)
        if isinstance(param, click.Option) and record is not None and not set(param.opts) & set(without):
            yield f".TP\n{_names(record[0])}\n{_sentences(record[1])}"


def _names(text: str) -> str:
    """Return the names of an option in bold, what it takes in italics."""
    words = re.split(r"(\s+|, )", text)
    return "".join(f"\\fB{_escape(word)}\\fR" if word.startswith("-") else _italic(word) for word in words)


def _italic(word: str) -> str:
    return f"\\fI{_escape(word)}\\fR" if re.search(r"\w", word) else _escape(word)


def _row(name: str, meaning: str) -> str:
    return f".TP\n.B {_escape(name)}\n{_sentences(meaning)}"


def _prose(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ".PP"
        yield _sentences(" ".join(paragraph.split()))


def _sentences(text: str) -> str:
    """Return a text with each sentence on a line of its own, as roff wants it."""
    return "\n".join(_line(sentence) for sentence in _SENTENCE.split(" ".join(text.split())))


def _line(text: str) -> str:
    """Return a line of text, which is never a request whatever it begins with."""
    escaped = _escape(text)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escape(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", text)


def _lower(text: str) -> str:
    """Return a summary as the name of a manual page wants it: in lower case, without a stop."""
    summary = text.partition("\n\n")[0].rstrip(".")
    return summary[:1].lower() + summary[1:]


def interface_files(share: Path, cli: click.Group) -> dict[Path, str]:
    """Return the manual page and the scripts of the shells with their texts.

    Args:
        share: The folder that is installed as ``share``.
        cli: The command line.
    """
    from cpuwheels.config.remedies import error_classes

    codes = [(error.exit_code, (error.__doc__ or "").partition("\n\n")[0]) for error in error_classes()]
    texts = {PLACE: manual_page(cli, codes), **dict(completion_scripts(cli))}
    return {share / place: text for place, text in texts.items()}
