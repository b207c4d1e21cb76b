"""What a report's patches change in upstream's source, as git shows it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from upstream_sources import ROOT

from cpuwheels.core.errors import PatchError
from cpuwheels.source.patches import apply_series, read_hunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.patch_series import Patch


def diff_of(patches: Sequence[Patch], earlier: Sequence[Patch], source: Path) -> tuple[str, list[Patch]]:
    """Return what patches change in a source, as git shows it, and the patches that have to be there before.

    Args:
        patches: Those of a report that are for this release.
        earlier: Those that come before the last of them; applied first if they do not apply by themselves.
        source: The tree as upstream published it.
    """
    folder = ROOT / "patches"
    files = sorted({hunk.path for patch in (*patches, *earlier) for hunk in read_hunks(folder / patch.file)})
    with tempfile.TemporaryDirectory() as work:
        trees = [Path(work) / side for side in ("a", "b")]
        for first in ((), [patch for patch in earlier if patch not in patches]):
            for tree in trees:
                shutil.rmtree(tree, ignore_errors=True)
                for name in filter(lambda name: (source / name).is_file(), files):
                    (tree / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source / name, tree / name)
                apply_series(first, folder, tree)
            try:
                apply_series(patches, folder, trees[1])
            except PatchError:
                continue
            break
        else:
            raise AssertionError([patch.file for patch in patches])
        # The folders' own names are the prefixes.
        command = ["git", "diff", "--no-index", "--no-prefix", "--no-color", "--stat", "--patch", "-U3", "a", "b"]
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False)
    text = re.sub(r"^ \{?a => b\}?/", " ", done.stdout, flags=re.MULTILINE)
    changed = {hunk.path for patch in patches for hunk in read_hunks(folder / patch.file)}
    before = [one for one in first if changed & {hunk.path for hunk in read_hunks(folder / one.file)}]
    return re.sub(r"^index .*\n", "", text, flags=re.MULTILINE), before
