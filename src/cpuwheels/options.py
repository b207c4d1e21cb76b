"""The options of a build, as the command line gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ToolchainChoice = Literal["auto", "host", "debian"]
CacheChoice = Literal["auto", "off"]


@dataclass(frozen=True)
class BuildOptions:
    """What the user may choose for one build.

    Attributes:
        source: Version or path; the matrix's default when None.
        sha256: Digest of the sdist, for a version the matrix does not pin.
        toolchain: Which compilers may be used.
        memory: Cap as given, such as ``8G``; what the machine has when None.
        jobs: Upper bound for compilations at once, as given.
        locked: Refuse alternates and anything not pinned by content.
        debug_symbols: Write separate ``.debug`` files.
        compiler_cache: Whether objects of other builds may be used.
    """

    source: str | None = None
    sha256: str | None = None
    toolchain: ToolchainChoice = "auto"
    memory: str | None = None
    jobs: str | None = None
    locked: bool = False
    debug_symbols: bool = False
    compiler_cache: CacheChoice = "auto"

    def as_arguments(self) -> list[str]:
        """Return these options as command-line arguments."""
        named = {"--source": self.source, "--sha256": self.sha256, "--toolchain": self.toolchain,
                 "--memory": self.memory, "--jobs": self.jobs, "--compiler-cache": self.compiler_cache}  # fmt: skip
        flags = {"--locked": self.locked, "--debug-symbols": self.debug_symbols}
        arguments = [part for name, value in named.items() if value is not None for part in (name, value)]
        return arguments + [name for name, wanted in flags.items() if wanted]
