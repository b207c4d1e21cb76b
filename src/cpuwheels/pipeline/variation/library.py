"""The library that every command of a second build loads, compiled from ``csrc/vary`` for this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.host import is_foreign, own_target
from cpuwheels.core.capture import capture
from cpuwheels.core.digests import make_key, tree_digest
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError, CpuwheelsError
from cpuwheels.core.process import run
from cpuwheels.pipeline.variation.circumstances import NotVariedError
from cpuwheels.toolchain.host_compilers import helpers_choice
from cpuwheels.toolchain.select import resolve_toolchain

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext

KIND = "vary"
FILE = "libvary.so"
SOURCES = Path("csrc") / "vary"

_FLAGS = ("-std=c17", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC")
_LIBRARIES = ("-ldl", "-pthread")


def vary_library(context: BuildContext) -> Path:
    """Return the library in the store.

    A second build sees it at this path, wherever its own stores are. It is linked with the sysroot of a wheel, so
    programs with an older C library than this machine's load it, too.

    Args:
        context: A run of the first build's target.

    Raises:
        NotVariedError: It cannot be compiled here.
    """
    target = own_target(context.matrix) if is_foreign(context.target) else context.target
    if target is None:
        raise NotVariedError("no target of the matrix is of this machine's kind, so nothing compiles the library")
    if {" ", ":"} & set(str(context.store.root)):
        raise NotVariedError(f"LD_PRELOAD takes no path with a blank or a colon, such as {context.store.root}")
    choice = helpers_choice(context.options.toolchain) if target is not context.target else context.options.toolchain
    sources = sorted((context.root / SOURCES).glob("*.c"))
    log = context.logs / "vary.log"
    try:
        toolchain = resolve_toolchain(context.for_target(target, choice))
        flags = (*_FLAGS, *toolchain.compile_flags, *toolchain.link_flags)
        key = make_key(sources=tree_digest(context.root / "csrc", ["vary"]), compiler=toolchain.digest, flags=_FLAGS)

        def make(folder: Path) -> None:
            command: list[str | Path] = [toolchain.cc, *flags, "-o", folder / FILE, *sources, *_LIBRARIES]
            run(command, log=log, env=closed_environment())
            _check_loads(folder / FILE)

        return context.store.get(KIND, key, make) / FILE
    except CommandError as error:
        raise NotVariedError(f"the library that it takes cannot be compiled here: {error.what} (see {log})") from error
    except CpuwheelsError as error:
        raise NotVariedError(f"there is no compiler for the library that it takes: {error.what}") from error


def _check_loads(library: Path) -> None:
    """Check that a program loads the library: one that cannot do so only complains, and goes on.

    Raises:
        NotVariedError: It does not.
    """
    done = capture(["/bin/sh", "-c", ":"], env=closed_environment({"LD_PRELOAD": str(library)}), both=True)
    if complaint := done.output.strip():
        raise NotVariedError(f"programs do not load the library that it takes: {complaint}")
