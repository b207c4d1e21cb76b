"""Upstream's trees with our patches, in the store and read only."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.core.digests import file_digest, make_key
from cpuwheels.core.filesystem import link_or_copy, write_atomic
from cpuwheels.core.sealed_entry import skip_manifest
from cpuwheels.source.patches import LEFT_OUT, AppliedPatch, apply_series, fixed_faults

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.patch_series import Patch
    from cpuwheels.core.console import Reporter
    from cpuwheels.source.result import Source

PATCHES = "patches"
"""Folder of the patch files, below the project's."""

_APPLIED = ".cpuwheels-patches.json"


@dataclass(frozen=True)
class Unpatched:
    """A tree as upstream published it, in the store and read only.

    Attributes:
        title: For people: what it is, and its version.
        folder: The tree.
        digest: Names its content.
        released: Whether it is a release. Others need no patch that fixes a fault.
    """

    title: str
    folder: Path
    digest: str
    released: bool


@dataclass(frozen=True)
class PreparedSource:
    """A source ready to be built.

    Attributes:
        version: As of the source.
        folder: The patched tree; read only.
        epoch: As of the source.
        patches: What became of each patch.
    """

    version: str
    folder: Path
    epoch: int
    patches: tuple[AppliedPatch, ...]

    @property
    def fixed_faults(self) -> frozenset[str]:
        """Faults of upstream's kernels that it does not have any more."""
        return fixed_faults(self.patches)


def prepare_source(context: BuildContext, source: Source, patches: Sequence[Patch]) -> PreparedSource:
    """Return the source with patches applied.

    Args:
        context: The run; its project has the patch files.
        source: Upstream's tree.
        patches: Those for this version and target, in order.

    Raises:
        PatchError: A patch is missing, or neither applies nor is already upstream.
    """
    tree = Unpatched(f"vLLM {source.version}", source.folder, source.digest, source.released)
    folder, applied = patched_tree(context, tree, patches)
    return PreparedSource(source.version, folder, source.epoch, applied)


def patched_tree(
    context: BuildContext, source: Unpatched, patches: Sequence[Patch]
) -> tuple[Path, tuple[AppliedPatch, ...]]:
    """Return a copy of a tree in the store with patches applied, and what became of each.

    Args:
        context: The run; its project has the patch files.
        source: The tree.
        patches: Those for it, in order.

    Raises:
        PatchError: A patch is missing, or neither applies nor is already upstream.
    """
    folder = context.root / PATCHES
    digests = [file_digest(folder / patch.file) for patch in patches if (folder / patch.file).is_file()]
    names, conditions = [patch.file for patch in patches], [patch.only_if_lacks for patch in patches]
    key = make_key(source=source.digest, patches=digests, names=names, conditions=conditions, layout=2)

    def make(tree: Path) -> None:
        ignore = skip_manifest(source.folder)
        # Second names, not copies: a patched file is written anew and renamed into place, the others stay as they are.
        shutil.copytree(
            source.folder, tree, symlinks=True, ignore=ignore, dirs_exist_ok=True, copy_function=link_or_copy
        )
        applied = apply_series(patches, folder, tree, released=source.released, title=source.title)
        # In place of what is there: it may be a link, or a second name of a file of the sealed source.
        rows = [{"file": patch.file, "sha256": patch.sha256, "state": patch.state} for patch in applied]
        write_atomic(tree / _APPLIED, json.dumps(rows, indent=1) + "\n")

    tree = context.store.get("prepared", key, make, of=source.folder)
    applied = tuple(
        AppliedPatch(**row, fixes=patch.fixes)
        for patch, row in zip(patches, json.loads((tree / _APPLIED).read_text()), strict=True)
    )
    _report(source.title, applied, context.reporter)
    return tree, applied


def _report(title: str, patches: Sequence[AppliedPatch], reporter: Reporter) -> None:
    for patch in patches:
        if not patch.fixes:
            reporter.info(f"patch {patch.file}: {patch.state}")
        elif patch.state == LEFT_OUT:
            reporter.announce(f"patch {patch.file} does not apply; these kernels have: {', '.join(patch.fixes)}")
    if faults := fixed_faults(patches):
        files = sum(bool(patch.fixes) and patch.state != LEFT_OUT for patch in patches)
        reporter.info(f"{title}: {len(faults)} faults of upstream's kernels are fixed by {files} patches")
