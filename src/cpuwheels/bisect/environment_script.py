"""A script with which a person uses the environment of a commit that is tested: ``use COMMAND``."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import storage_errors, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.bisect.predicates import Installed

NAME = "use"

_SHELLS = ("/bin/bash", "/bin/sh")

_TERMINAL = ("TERM", "COLORTERM", "NO_COLOR")
"""Variables about the terminal that the script is started in."""

_START = 'command -v "$1" >/dev/null || { echo "$0: there is no command $1 here" >&2; exit 127; }; exec "$@"'
"""What the shell does in there; only it sees which commands there are."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def write_script(folder: Path, installed: Installed, env: Mapping[str, str], named: Sequence[str], cwd: Path) -> Path:
    """Write the script, and return it.

    Values of variables that the user names are not in it, since they may be credentials: it takes them from where it is
    started.

    Args:
        folder: Where it is written.
        installed: The environment, and what confines commands in it.
        env: The variables of its commands.
        named: Names of variables that the user hands out.
        cwd: Their working folder.

    Raises:
        StoreError: It cannot be written.
    """
    shell = next(path for path in _SHELLS if Path(path).exists() or path == _SHELLS[-1])
    confined = installed.confine([shell], env)
    handed_out = [name for name in named if _VARIABLE.fullmatch(name) and confined.env.get(name) == env.get(name)]
    taken = dict.fromkeys((*_TERMINAL, *handed_out))
    hidden = {*taken, *(name for name in named if not _VARIABLE.fullmatch(name))}
    values = [f"{name}={value}" for name, value in sorted(confined.env.items()) if name not in hidden]
    lines = [
        "#!/bin/sh",
        "# Runs a command, or a shell, in the environment of a commit that is tested.",
        f'[ "$#" -gt 0 ] || set -- {shell}',
        f"cd {shlex.quote(str(cwd))} || exit",
        f"exec env -i {shlex.join(values)} \\",
        *(f'  ${{{name}+"{name}=${name}"}} \\' for name in taken),
        f'  {shlex.join([*map(str, confined.argv), "-c", _START, NAME])} "$@"',
        "",
    ]
    script = folder / NAME
    with storage_errors(folder):
        write_atomic(script, "\n".join(lines))
        script.chmod(0o700)
    return script
