"""Where a second build happens: folders of its own, at another path or seen at the path of the first build's."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.paths import MATRIX, PACKAGE
from cpuwheels.core.entry_links import link_entries
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.sealed_entry import MOVABLE
from cpuwheels.pipeline.variation.library import KIND as LIBRARIES

if TYPE_CHECKING:
    from cpuwheels.config.paths import Paths
    from cpuwheels.pipeline.variation.circumstances import Circumstances

TOOLS = frozenset(
    {"bytecode", "ccache", "emulators", "environments", "licences", "locks", "roots", "sandbox", "sysroots", "tcmalloc"}
    | {"toolchains", "torch"}
)
"""Kinds of what is made of downloads alone, whatever source is built; their entries hold their own path."""

_SETTINGS = (".gitconfig", ".netrc", ".pip", ".config/git", ".config/pip", ".config/uv")
"""What of a home folder says where something is fetched from."""

_LONGER = "/".join(["a-rather-long-name-of-a-folder-that-has-49-characters"[:49]] * 3)
_PROJECT = (MATRIX, "cmake", "csrc", "locks", "measured", "patches", "tests/parity")
_WITHOUT = shutil.ignore_patterns("__pycache__")


@dataclass(frozen=True)
class Place:
    """The folders of a second build.

    Attributes:
        paths: As the second build sees them.
        cache: Where its stores really are.
        dist: Where its output really is.
        binds: Folders that it sees at other paths: (what, where), in the order in which they are mounted.
        program: The folder with a copy of this package; None for the package itself.
    """

    paths: Paths
    cache: Path
    dist: Path
    binds: tuple[tuple[Path, Path], ...] = ()
    program: Path | None = None

    def inside(self, path: Path) -> Path:
        """Return what the second build calls a path in its stores."""
        return self.paths.cache / path.relative_to(self.cache)

    def outside(self, path: Path) -> Path:
        """Return where a path of its output really is."""
        return self.dist / path.relative_to(self.paths.dist)


def prepare(paths: Paths, base: Path, wanted: Circumstances) -> Place:
    """Return the folders of a second build, with what it shares with the first.

    Args:
        paths: Folders of the first build.
        base: An empty folder in its stores.
        wanted: Whether the second build is elsewhere, and whether its stores are cold.

    Raises:
        StoreError: They cannot be written.
    """
    if wanted.elsewhere:
        base = base / _LONGER if wanted.longer else base
        cache, dist = base / "other cache", base / "other dist"
        link_entries(paths.cache, MOVABLE, cache)
        with storage_errors(base):
            root = _copy_project(paths, base / "other project")
            program = Path(shutil.copytree(PACKAGE, base / "other program" / PACKAGE.name, ignore=_WITHOUT)).parent
        seen = replace(paths, root=root, cache=cache, dist=dist)
        return Place(seen, cache, dist, program=program)
    cache, dist = base / "cache", base / "dist"
    binds = []
    with storage_errors(base):
        for folder in (cache, dist, paths.dist):
            folder.mkdir(parents=True, exist_ok=True)
        if wanted.cold:
            link_entries(paths.cache, [*MOVABLE, LIBRARIES], cache)
        else:
            for kind in sorted(MOVABLE | TOOLS | {LIBRARIES}):
                if (paths.cache / kind).is_dir():
                    (cache / kind).mkdir()
                    binds.append((paths.cache / kind, cache / kind))
    # The stores last: they cover all that lies in them.
    return Place(paths, cache, dist, (*binds, (dist, paths.dist), (cache, paths.cache)))


def other_home(place: Place) -> Path:
    """Make a home folder that has nothing but the settings of what is fetched, and return what it is called."""
    home, old = place.cache / "home", Path.home()
    with storage_errors(home):
        home.mkdir(exist_ok=True)
        for name in _SETTINGS:
            if (old / name).exists():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).symlink_to(old / name)
    return place.inside(home)


def _copy_project(paths: Paths, root: Path) -> Path:
    """Copy the project's files that a build reads."""
    for name in _PROJECT:
        there, here = paths.root / name, root / name
        here.parent.mkdir(parents=True, exist_ok=True)
        if there.is_dir():
            shutil.copytree(there, here, symlinks=True, ignore=_WITHOUT)
        elif there.is_file():
            shutil.copy2(there, here)
    return root
