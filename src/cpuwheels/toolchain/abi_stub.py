"""A ``libstdc++.so.6`` to link against that offers only what the target's floor has.

What it lacks, the linker takes from the compiler's static ``libstdc++.a``. So the kernels share the user's
libstdc++ where they can, which lets exceptions cross into torch, and carry the newer parts themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.errors import CommandError, ToolchainError
from cpuwheels.keys import file_digest, make_key
from cpuwheels.process import run
from cpuwheels.toolchain.symbols import allowed_nodes, assembly, policy_text, read_symbols, version_script

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.model.matrix import Target
    from cpuwheels.store import Store

KIND = "abi-stubs"
SONAME = "libstdc++.so.6"
RECIPE = 1
"""Raised when the same library and floor would make another stub."""


def abi_stub(
    library: Path,
    target: Target,
    *,
    cc: Path,
    flags: tuple[str, ...],
    compiler: str,
    store: Store,
    logs: Path,
) -> Path:
    """Return the stub library, making it first if it is not in the store.

    Args:
        library: The sysroot's ``libstdc++.so.6``.
        target: Its ``floor`` and ``machine`` choose auditwheel's policy, which lists the version nodes.
        cc: The C compiler, which assembles and links it.
        flags: Always passed to it.
        compiler: The compiler's digest.
        store: Where the stub is kept.
        logs: Folder for the log of making it.

    Raises:
        ToolchainError: There is no such policy, the library has no versions, or the compiler fails.
    """
    allowed = allowed_nodes(policy_text(), target.floor, target.machine)
    key = make_key(recipe=RECIPE, library=file_digest(library), allowed=allowed, compiler=compiler)

    def make(folder: Path) -> None:
        symbols, tree = read_symbols(library)
        source, script = folder / "stub.s", folder / "stub.map"
        source.write_text(assembly(symbols, allowed))
        script.write_text(version_script(tree, allowed))
        flags_for_link = ("-shared", "-nostdlib", "-Wl,--build-id=none", f"-Wl,-soname,{SONAME}")
        mapped = f"-Wl,--version-script={script}"
        command = [cc, *flags, *flags_for_link, mapped, source, "-o", folder / SONAME]
        try:
            run(command, log=logs / "abi-stub.log", cwd=folder)
        except CommandError as error:
            raise ToolchainError(
                f"the compiler could not make the {target.floor} stub of {SONAME}",
                where=error.where,
                log=error.log,
                output=error.output,
                next_step="its assembler needs .symver with 'remove' (binutils 2.35 or newer); "
                "run with --toolchain debian to use the pinned one",
            ) from error

    return store.get(KIND, key, make) / SONAME
