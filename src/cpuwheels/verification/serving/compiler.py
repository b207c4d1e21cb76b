"""The C++ compiler that torch.compile needs while a model is served: the one that builds the wheel."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.capture import capture
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.kernels.confined import readable_places, toolchain_places
from cpuwheels.toolchain.select import resolve_toolchain

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.sandbox.confine import Confine

_SCRIPT = """#!/bin/sh
for word in "$@"; do
    case "$word" in -shared) exec {before} {link} "$@" {after} ;; esac
done
exec {before} "$@"
"""
"""What torch.compile links is shared. It also compiles headers, and if libraries were given, these would be linked."""


def compiler_variables(context: BuildContext, work: Path) -> tuple[dict[str, str], str, tuple[Path, ...]]:
    """Return the variables by which torch.compile finds the target's compiler, what that is for people, and its places.

    It is one of this machine that meets the target's requirements, or the pinned one of Debian, as for a build; and it
    makes code for the target's floor, so that the machine's own C++ library may be an old one.

    Args:
        context: The run.
        work: Folder for a script that adds the compiler's flags.

    Raises:
        ToolchainError: No compiler meets the requirements, or one could not be prepared.
        DownloadError: A package cannot be fetched.
    """
    chain = resolve_toolchain(context)
    flags = ((chain.cxx, *chain.compile_flags, *chain.cxx_flags), chain.link_flags, chain.cxx_libraries)
    before, link, after = (shlex.join(map(str, each)) for each in flags)
    script = work / "bin" / "g++"
    with storage_errors(work):
        script.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(script, _SCRIPT.format(before=before, link=link, after=after))
        script.chmod(0o755)
    return {"CXX": str(script)}, chain.description, readable_places(toolchain_places(chain), context.store.root)


def lacking_headers(python: Path, confine: Confine) -> str:
    """Return why torch.compile cannot work with a Python, in words; empty if it can.

    The code that it writes includes ``Python.h``, which Debian has in a package of its own.

    Args:
        python: Interpreter of the environment with the wheel.
        confine: Confines the process: what is installed may run when its interpreter starts.
    """
    asked = confine([python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"], closed_environment())
    folder = Path(capture(asked.argv, env=asked.env).output.strip())
    return "" if (folder / "Python.h").is_file() else f"its Python has no headers ({folder}/Python.h)"
