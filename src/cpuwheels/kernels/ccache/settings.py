"""How ccache is set up: correct with GCC's precompiled headers, and independent of where a build happens."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FOLDER = "compiler-cache"
"""Below the stores; not sealed like their entries, since ccache keeps and checks its own."""

NOTE = "CCACHE_STATSLOG"
"""Variable with which memgate asks for a job's outcome."""

REMOTE_VARIABLE = "CPUWHEELS_COMPILER_CACHE_REMOTE"
SIZE_VARIABLE = "CPUWHEELS_COMPILER_CACHE_SIZE"
DEFAULT_SIZE = "10G"
"""A first build adds 2.2 GB, most of it precompiled headers, of which 0.34 GB stay; see docs/compiler-cache.md."""

SCRIPTS = Path(__file__).with_name("resources")
"""What runs in front of the cache, and between it and a compiler; see ``resources/headers.py``."""

_HITS = frozenset({"direct_cache_hit", "preprocessed_cache_hit"})


@dataclass(frozen=True)
class CompilerCache:
    """ccache for the builds below one root.

    Attributes:
        program: ccache.
        root: The stores' root. Paths below it are seen from the build folder on, so that they are the same in
            each build folder and on each machine.
        size: Largest size of the local cache, as ccache takes it.
        remote: Shared storage as ccache takes it (``remote_storage``), if any.
        folder: The local cache; the releases' if not given.
    """

    program: Path
    root: Path
    size: str = DEFAULT_SIZE
    remote: str = ""
    folder: Path | None = None

    def own_folder(self) -> Path:
        """Return the local cache."""
        return self.folder or self.root / FOLDER

    def launcher(self) -> list[str]:
        """Return the command in front of a compiler's."""
        return [str(SCRIPTS / "defer-header"), str(self.program)]

    def shared_folders(self) -> dict[Path, bool]:
        """Return the folders of the shared storage, with whether the compilers write it."""
        found = {}
        for each in self.remote.split():
            url, *attributes = each.split("|")
            found[Path(unquote(urlsplit(url).path))] = not {"read-only", "read-only=true"} & set(attributes)
        return found

    def environment(self, identity: str) -> dict[str, str]:
        """Return ccache's settings (its manual, Configuration options).

        Args:
            identity: Names everything that decides about an object and that no compiler reads as a file.
        """
        folder = self.own_folder()
        settings = {
            "DIR": str(folder),
            "TEMPDIR": str(folder / "tmp"),
            # Nobody's own ccache.conf.
            "CONFIGPATH": os.devnull,
            "MAXSIZE": self.size,
            "COMPILERCHECK": checked(identity),
            # No preprocessing before a miss. Object and dependencies are remembered with the digests of all files
            # that the compiler names as read, its precompiled header among them.
            "DEPEND": "1",
            # What ccache requires with precompiled headers. The first is about the -D options with which a header was
            # made, which are those of the files that use it; the second about __DATE__ and __TIME__, which are
            # fixed by SOURCE_DATE_EPOCH. The third: torch's headers get more names while another build makes an
            # environment of hard links, which changes their ctime and nothing else; ccache would take them for
            # changed during the compilation and compile a second time.
            "SLOPPINESS": "pch_defines,time_macros,include_file_ctime",
            "BASEDIR": str(self.root),
            # A precompiled header is known by a digest next to it, and there when a compiler reads it.
            "PCH_EXTSUM": "1",
            "PREFIX": "need-header",
            "PATH": str(SCRIPTS),
            # The working directory is not in the objects: see the path maps in kernels/configure.py.
            "NOHASHDIR": "1",
        }
        if self.remote:
            settings["REMOTE_STORAGE"] = self.remote
        else:
            # Compressing a precompiled header takes as much memory as making it, and a quarter more time; that is done
            # when nothing else runs, see ccache/compress.py.
            settings["NOCOMPRESS"] = "1"
        return {f"CCACHE_{name}": value for name, value in settings.items()}


def checked(identity: str) -> str:
    """Return ccache's setting ``compiler_check`` for what decides about an object besides the files that are read."""
    return f"string:{identity}"


def compiler_cache(
    program: Path, root: Path, environ: Mapping[str, str], announce: Callable[[str], None]
) -> CompilerCache:
    """Return the cache as the user's environment variables have it, without what a confined compiler cannot reach.

    Args:
        program: ccache.
        root: The stores' root.
        environ: The user's environment.
        announce: Told of shared storage that is left out.
    """
    given = environ.get(REMOTE_VARIABLE, "").split()
    usable = [each for each in given if each.startswith("file:")]
    if left_out := sorted({each.partition(":")[0] for each in given} - {"file"}):
        announce(
            f"the shared compiler cache ({', '.join(left_out)}) is not used: compilers run without a network; "
            f"{REMOTE_VARIABLE} can name a folder, as file:/…"
        )
    return CompilerCache(program, root, environ.get(SIZE_VARIABLE, DEFAULT_SIZE), " ".join(usable))


def was_hit(note: str) -> bool:
    """Return whether a job's result came out of the cache, by what the job wrote about itself."""
    return not _HITS.isdisjoint(note.split())
