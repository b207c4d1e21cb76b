"""Names of headers that could hide one another, so that an added header cannot be overlooked.

A compiler cache remembers which files a compiler read and checks whether they are still the same. It does not see
a new file that an ``#include`` would find first (ccache's manual, Caveats). Such a file has the name of one that was
read. So wherever files share a name, the places where it occurs count too.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from cpuwheels.core.digests import text_digest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_NEVER_INCLUDED = (".cu", ".cuh", ".py", ".md", ".txt")


def shadows_digest(changing: Path, fixed: Iterable[Path]) -> str:
    """Return a digest of where files lie whose names occur more than once.

    Args:
        changing: Folder whose files differ from source to source.
        fixed: Other folders that compilers look for headers in; what they hold is part of the caller's key.
    """
    places: defaultdict[str, list[str]] = defaultdict(list)
    for folder, _, names in os.walk(changing):
        inside = os.path.relpath(folder, changing)
        for name in names:
            if not name.endswith(_NEVER_INCLUDED):
                places[name].append(f"{inside}/{name}")
    elsewhere = {name for root in fixed for _, _, names in os.walk(root) for name in names}
    shared = [path for name, paths in places.items() if len(paths) > 1 or name in elsewhere for path in paths]
    return text_digest("\n".join(sorted(shared)))
