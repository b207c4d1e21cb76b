"""Commands in the documentation: those that are shown have to exist, and those that are marked are run.

    <!-- test -->

in front of a block of code, indented or fenced, has `nox -s docs -- --test` run it: each block with bash in an empty
folder, with stores and a home folder of its own and no network. A comment is not shown on any page.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import click

MARK = "<!-- test -->"
SECONDS = 300
NOWHERE = "http://127.0.0.1:9"
"""A proxy that nothing listens at."""

_SESSION = re.compile(
    r'_command\(\s*(?P<formatted>f?)"(?P<session>[^"]+)",\s*f?"[^"]*",\s*"(?P<command>[\w-]+)"', re.DOTALL
)
_OTHER = re.compile(
    r'^@nox\.session(?:\([^)]*?(?:name="(?P<name>[\w-]+)")?[^)]*\))?\ndef (?P<function>\w+)', re.MULTILINE
)
_BASH = shutil.which("bash") or "bash"
_RUNNERS = ("nox", "cpuwheels")
_WRAPPERS = {*_RUNNERS, "uvx", "pipx"}
_ENDS = {"|", "||", "&&", ";", ">", ">>", "2>"}


@dataclass(frozen=True)
class Block:
    """A block of code in a page.

    Attributes:
        line: Where it begins, from 1.
        text: Its lines, without their indentation.
        is_test: Whether it is marked.
    """

    line: int
    text: str
    is_test: bool


def blocks(text: str) -> Iterator[Block]:
    """Yield each block of code of a page, indented or fenced.

    Raises:
        ValueError: A mark has no block behind it.
    """
    lines = text.splitlines()
    at, marked = 0, 0
    while at < len(lines):
        line = lines[at]
        before = next((one for one in reversed(lines[:at]) if one.strip()), "")
        start = at
        if line.strip() == MARK:
            marked, at = at + 1, at + 1
            continue
        if fence := re.match(r"( *)(```+|~~~+)", line):
            at += 1
            while at < len(lines) and not lines[at].strip().startswith(fence[2]):
                at += 1
            found = lines[start + 1 : at]
            at += 1
        elif line.startswith("    ") and not (lines[at - 1].strip() if at else "") and not _in_list(before, line):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            found = lines[start:at]
        else:
            if marked and line.strip():
                raise ValueError(f"line {marked}: {MARK} has no block of code behind it")
            at += 1
            continue
        yield Block(start + 1, textwrap.dedent("\n".join(found)).strip("\n") + "\n", bool(marked))
        marked = 0
    if marked:
        raise ValueError(f"line {marked}: {MARK} has no block of code behind it")


def _in_list(before: str, line: str) -> bool:
    """Return whether an indented line goes on with a list's item, and is no code."""
    item = re.match(r" *([-*]|\d+\.) +", before)
    return bool(item) and not line.startswith(" " * (len(item[0]) + 4))


def sessions(noxfile: str, targets: list[str]) -> dict[str, str]:
    """Return the sessions of a noxfile, each with the command that it runs, or "" if it runs none."""
    found = {match["name"] or match["function"]: "" for match in _OTHER.finditer(noxfile)}
    for match in _SESSION.finditer(noxfile):
        for target in targets if match["formatted"] else [""]:
            found[match["session"].replace("{_id}", target)] = match["command"]
    return found


def unknown(text: str, known: Mapping[str, str], commands: Mapping[str, click.Command]) -> Iterator[str]:
    """Yield what a page's blocks of code call that is not there: sessions, commands and options.

    Args:
        text: Of the page.
        known: Sessions, each with its command.
        commands: Of the command line.
    """
    for block in blocks(text):
        joined = re.sub(r"\\\n\s*", " ", block.text)
        for line in joined.splitlines():
            words = _words(line)
            if not words:
                continue
            if words[:2] == ["nox", "-s"]:
                yield from _wrong_session(words[2:], known, commands)
            elif words[0] == "cpuwheels" and len(words) > 1 and not words[1].startswith("-"):
                yield from _wrong_command(words[1], words[2:], commands)


def _words(line: str) -> list[str]:
    """Return the words of a command from the runner on; of a line that is no command, nothing."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # an output or a text with an apostrophe
        return []
    start = next((at for at, word in enumerate(words) if word in _RUNNERS), None)
    if start is None or (words[0] not in _WRAPPERS and any("=" not in word for word in words[:start])):
        return []
    end = next((at for at, word in enumerate(words) if at > start and word in _ENDS), len(words))
    return words[start:end]


def _wrong_session(words: list[str], known: Mapping[str, str], commands: Mapping[str, click.Command]) -> Iterator[str]:
    name = words[0] if words else ""
    if name not in known:
        yield f"there is no session '{name}'{_nearest(name, known)}"
    elif known[name] and "--" in words:
        yield from _wrong_command(known[name], words[words.index("--") + 1 :], commands)


def _wrong_command(name: str, words: list[str], commands: Mapping[str, click.Command]) -> Iterator[str]:
    if name not in commands:
        if re.fullmatch(r"[a-z-]+", name):
            yield f"there is no command '{name}'{_nearest(name, commands)}"
        return
    hidden = [one for one in commands[name].params if getattr(one, "hidden", False)]
    shown = [one for one in commands[name].params if one not in hidden]
    options = {option for one in shown for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    for word in words:
        option = word.partition("=")[0]
        if any(option in one.opts for one in hidden):
            yield f"{option} of {name} is hidden: an old spelling, or for other commands"
        elif re.match(r"--?[a-z]", option) and option not in options:
            yield f"{name} has no option {option}{_nearest(option, options)}"


def _nearest(name: str, known: Mapping[str, object] | set[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"; there is {near[0]}" if near else ""


def run(block: Block) -> str:
    """Run a block in an empty folder; return "" if it succeeds, else what it printed."""
    with tempfile.TemporaryDirectory() as name:
        home, work = Path(name, "home"), Path(name, "work")
        home.mkdir()
        work.mkdir()
        env = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "CPUWHEELS_CACHE": str(home / "stores"),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"), NOWHERE),
        }
        try:
            done = subprocess.run(
                [_BASH, "-euo", "pipefail", "-c", block.text],
                cwd=work,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it did not end within {SECONDS} seconds"
    return f"exit code {done.returncode}\n{done.stdout}" if done.returncode else ""
