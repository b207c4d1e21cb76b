"""Arm Compute Library's sources: what upstream pins, else none, which is announced."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cpuwheels.core.errors import CpuwheelsError, LockedError
from cpuwheels.fetch.git_archive import GitSource, refuse_tag, repositories_of, settle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.pins import AclPin

REPOSITORY_VARIABLE = "CPUWHEELS_ACL_REPO"
NAME = "Arm Compute Library"
KIND = "acl"


@dataclass(frozen=True)
class Acl:
    """Arm Compute Library's sources in the store; read only.

    Attributes:
        folder: The tree; None, like `commit`, if the build goes without the library.
        tag: The GIT_TAG upstream asks for.
        commit: Names the content.
        kind: Whether it is the pinned commit, what the tag named when it was looked up, or nothing.
        options: CMake options it is compiled with.
        march: Architecture up to which it has kernels, as the assembler's ``-march`` names it.
    """

    folder: Path | None
    tag: str
    commit: str | None
    kind: Literal["pinned", "tag", "absent"]
    options: Mapping[str, str]
    march: str | None = None


def choose_acl(tags: Sequence[str], pins: Mapping[str, AclPin], machine: str) -> tuple[str, AclPin] | None:
    """Return the pin for the tags that a source names, with its tag; None if the machine has no use for it.

    A tag that the matrix does not pin gets the machine's newest pin, without its commit.
    """
    meant = {tag: pin for tag, pin in pins.items() if machine in pin.machines}
    if not meant or not tags:
        return None
    newest = next(reversed(meant.values())).model_copy(update={"commit": None})
    return next(((tag, meant[tag]) for tag in tags if tag in meant), (tags[0], newest))


def refuse_unpinned(tag: str) -> LockedError:
    """Return the error for a version of which ``--locked`` knows no commit."""
    return refuse_tag(NAME, tag, "matrix.yaml: acl", "go without it with --allow-fallbacks, ")


class _UnreachableError(CpuwheelsError):
    """Its commit cannot be fetched; `get_acl` says what then happens, so this ends no run."""


def get_acl(context: BuildContext, tag: str, pin: AclPin, *, environ: Mapping[str, str] = os.environ) -> Acl:
    """Return Arm Compute Library's sources, or the decision to do without.

    They come from the store, else from ``CPUWHEELS_ACL_REPO`` (a local clone or a remote), else from the pin's
    repositories. Without a pinned commit the tag is looked up in each run.

    Args:
        context: The run; everything that is not pinned by content is announced, and refused if the run is locked.
        tag: GIT_TAG in upstream's CMake.
        pin: The commit behind it, if known, and repositories.
        environ: Where ``CPUWHEELS_ACL_REPO`` is looked up.

    Raises:
        LockedError: The run is locked and takes no fallbacks, and the commit is not known or cannot be fetched.
    """
    repositories = repositories_of(pin.repositories, REPOSITORY_VARIABLE, environ)
    source = GitSource(NAME, KIND, tag, repositories, REPOSITORY_VARIABLE, _UnreachableError)
    reporter, locked = context.reporter, context.options.locked
    strict = locked and not context.options.allow_fallbacks
    try:
        found = settle(
            source,
            pin.commit,
            store=context.store,
            reporter=reporter,
            logs=context.logs,
            locked=locked,
            where="matrix.yaml: acl",
        )
    except (_UnreachableError, LockedError) as error:
        if strict and isinstance(error, LockedError):
            raise
        if strict:
            raise LockedError(
                f"{NAME} {tag} cannot be reached and --locked refuses to go without",
                where=error.where,
                output=error.output,
                next_step=f"name a clone in {REPOSITORY_VARIABLE}; or go without it with --allow-fallbacks, or build "
                "without --locked",
            ) from error
        why = "is not pinned by content" if isinstance(error, LockedError) else "cannot be reached"
        reporter.announce(
            f"{NAME} {tag} {why}; building without it: matrix products are oneDNN's own. "
            f"The build record and the wheel's metadata say so. A clone named in {REPOSITORY_VARIABLE} avoids it."
        )
        return Acl(None, tag, None, "absent", pin.options, pin.march)
    return Acl(found.folder, tag, found.commit, found.kind, pin.options, pin.march)
