"""Applying patches strictly: each hunk's old lines must occur in the file exactly once, letter for letter.

There is no fuzz and no guess by line number. A hunk whose new lines are already there is recognised as
upstream; anything else stops the build with the patch, the file and the hunk. Only a commit between releases may do
without a patch that fixes a fault of its kernels: it is built as it is, and its wheel says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal, Protocol

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import PatchError
from cpuwheels.core.filesystem import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from cpuwheels.config.patch_series import Lacks, Patch

State = Literal["applied", "upstream", "not needed", "left out"]
LEFT_OUT: Final = "left out"
HunkState = Literal["applies", "upstream", "missing", "ambiguous"]


@dataclass(frozen=True)
class AppliedPatch:
    """What became of one patch.

    Attributes:
        file: Its name in ``patches/``.
        sha256: Its digest.
        state: ``applied``; ``upstream`` when the source already has the change; ``not needed`` when it is not one of
            the sources that the patch is for; ``left out`` when it does not apply to a commit that can do without.
        fixes: Faults of upstream's kernels that it fixes.
    """

    file: str
    sha256: str
    state: State
    fixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hunk:
    """One change of a patch: old and new lines, both with their line ends."""

    path: str
    header: str
    old: str
    new: str


class Fix(Protocol):
    """What became of a patch, and the faults that it fixes or takes part in fixing."""

    @property
    def state(self) -> str:
        """As `AppliedPatch` has it."""

    @property
    def fixes(self) -> tuple[str, ...]:
        """Likewise."""


def fixed_faults(patches: Iterable[Fix]) -> frozenset[str]:
    """Return the faults that a source does not have any more: all patches that fix one are there."""
    states = [(patch.state == LEFT_OUT, fault) for patch in patches for fault in patch.fixes]
    return frozenset(fault for _, fault in states) - {fault for is_left_out, fault in states if is_left_out}


def apply_series(
    patches: Sequence[Patch], folder: Path, tree: Path, *, released: bool = True, title: str = "the source"
) -> tuple[AppliedPatch, ...]:
    """Apply patches in order to a writable source tree.

    Args:
        patches: Those that are for this version and target.
        folder: Where the patch files are.
        tree: The source; a patch that fails leaves it as the patches before it made it.
        released: Whether it is a release. Others need no patch that fixes a fault or is for speed.
        title: For people: the source and its version.

    Raises:
        PatchError: A patch is not there, is not a unified diff, or has a hunk that neither applies nor is
            already upstream.
    """
    return tuple(_applied(patch, folder / patch.file, tree, title, released=released) for patch in patches)


def _applied(patch: Patch, path: Path, tree: Path, title: str, *, released: bool) -> AppliedPatch:
    hunks = read_hunks(path)
    try:
        state = _apply(patch, hunks, tree, title)
    except PatchError:
        if released or not (patch.fixes or patch.speeds):
            raise
        state = LEFT_OUT
    return AppliedPatch(patch.file, file_digest(path), state, patch.fixes)


def _apply(patch: Patch, hunks: Sequence[Hunk], tree: Path, title: str) -> State:
    if patch.only_if_lacks and not _lacks(patch.only_if_lacks, tree):
        return "not needed"
    contents: dict[str, str] = {}
    states: list[HunkState] = []
    for hunk in hunks:
        text = contents.get(hunk.path)
        if text is None:
            text = _read_target(tree, hunk, patch, title)
        state = judge(hunk, text)
        states.append(state)
        if state == "applies":
            (start,) = _places(hunk.old, text)
            text = f"{text[:start]}{hunk.new}{text[start + len(hunk.old) :]}"
        elif state != "upstream":
            raise _failed(patch, hunk, state, title)
        contents[hunk.path] = text
    if "applies" in states:
        for name, text in contents.items():
            mode = (tree / name).stat().st_mode
            write_atomic(tree / name, text)
            (tree / name).chmod(mode)
    return "applied" if "applies" in states else "upstream"


def _lacks(condition: Lacks, tree: Path) -> bool:
    try:
        return condition.text not in (tree / condition.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def judge(hunk: Hunk, text: str) -> HunkState:
    """Return whether a hunk applies to a text.

    A hunk that only adds lines next to its context also has its old lines in a patched file, so the new
    lines are looked for first.
    """
    found_old, found_new = _places(hunk.old, text), _places(hunk.new, text)
    if found_new and (not found_old or _places(hunk.old, hunk.new)):
        return "upstream"
    if len(found_old) == 1:
        return "applies"
    return "ambiguous" if found_old else "missing"


def _places(lines: str, text: str) -> list[int]:
    """Return the line starts of a text at which the lines occur, overlapping ones too."""
    found = []
    at = text.find(lines)
    while at >= 0:
        if at == 0 or text[at - 1] == "\n":
            found.append(at)
        at = text.find(lines, at + 1)
    return found


def read_hunks(path: Path) -> list[Hunk]:
    """Read a unified diff.

    Raises:
        PatchError: The file is missing, is not a unified diff, or adds, renames or removes files.
    """
    try:
        patch_set = PatchSet(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PatchError(
            f"patch {path.name} cannot be read: {error.strerror}",
            where=path,
            next_step="put the file there, or take it out of patches/series.yaml",
        ) from error
    except (UnidiffParseError, UnicodeDecodeError) as error:
        raise PatchError(
            f"patch {path.name} is not a unified diff: {error}",
            where=path,
            next_step="write it anew with git diff (docs/patches.md)",
        ) from error
    hunks = []
    for file in patch_set:
        name = PurePosixPath(file.path)
        if not file.is_modified_file or file.is_rename or name.is_absolute() or ".." in name.parts:
            raise PatchError(
                f"patch {path.name} does not modify an existing file of the source: {file.path}",
                where=path,
                next_step="a patch may only change files that are there; whole files belong into the steering",
            )
        hunks += [
            Hunk(file.path, str(hunk).splitlines()[0], "".join(_text(hunk.source)), "".join(_text(hunk.target)))
            for hunk in file
        ]
    if not hunks:
        raise PatchError(
            f"patch {path.name} changes nothing",
            where=path,
            next_step="write it anew, or take it out of patches/series.yaml",
        )
    return hunks


def _text(lines: Sequence[str]) -> list[str]:
    return [line[1:] for line in lines]


def _read_target(tree: Path, hunk: Hunk, patch: Patch, title: str) -> str:
    try:
        return (tree / hunk.path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PatchError(
            f"patch {patch.file} changes {hunk.path}, which {title} does not have as text",
            where=f"patches/{patch.file}",
            next_step="narrow its versions in patches/series.yaml or write it anew for this source",
        ) from error


def _failed(patch: Patch, hunk: Hunk, state: HunkState, title: str) -> PatchError:
    reason = {
        "missing": "its old lines are not there",
        "ambiguous": "its old lines occur more than once; add a line of context",
    }[state]
    return PatchError(
        f"patch {patch.file} does not apply to {hunk.path} of {title}: {reason}",
        where=f"patches/{patch.file} {hunk.header}",
        output="".join(f"-{line}\n" for line in hunk.old.splitlines()),
        next_step="narrow its versions in patches/series.yaml or write it anew for this source",
    )
