"""Who vouches for a source, and so how far what was built from it is offered to others.

What a build left may be wrong on purpose, if its source is hostile. So results that come from running a source's own
programs are kept apart by who vouches for the source: what was built from a commit, which anybody may have written, is
never found by a release's build.
"""

from __future__ import annotations

from enum import Enum

NAMESPACED = frozenset(
    {
        "kernels",
        "onednn-libraries",
        "onednn-calls",
        "audited",
        "reads",
        "classes",
        "packages",
        "measured",
        "compiler-cache",
    }
)
"""Kinds of results that come from running a source's own programs; all others come from this program's own work, and
from what it pins."""


class Trust(Enum):
    """Who vouches for a source; the value is where its results are, below the stores' root.

    Releases' results are found by all builds, those of others only by their own kind.
    """

    RELEASE = ""
    """matrix.yaml pins its digest."""
    COMMIT = "from-commits"
    """It is a commit of a repository."""
    LOCAL = "from-trees"
    """It is a folder of this machine, or an archive that the user vouches for."""
