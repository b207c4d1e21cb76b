"""oneDNN's sources with our patches: the commit that upstream pins, else the fallback, which is announced."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cpuwheels.config.patch_series import load_series
from cpuwheels.config.pins import OneDnnPin
from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import DownloadError, LockedError, OneDnnError
from cpuwheels.fetch.git_archive import GitSource, repositories_of, settle
from cpuwheels.source.debian_source import get_debian_source
from cpuwheels.source.patched import Unpatched, patched_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.errors import CpuwheelsError
    from cpuwheels.source.patches import AppliedPatch

REPOSITORY_VARIABLE = "CPUWHEELS_ONEDNN_REPO"

_PROJECT = "CMakeLists.txt"
_RELEASE = re.compile(r'^set\(PROJECT_VERSION "(\d+(?:\.\d+)+)"\)', re.MULTILINE)


@dataclass(frozen=True)
class OneDnn:
    """oneDNN's sources in the store; read only.

    Attributes:
        folder: The tree.
        tag: The GIT_TAG upstream asks for.
        version: The commit, or the fallback's version.
        digest: Names the content as it was published: the commit, or the archive's sha256.
        kind: Whether it is the pinned commit, what the tag named when it was looked up, or a fallback.
        release: The release that it is or that is being worked on, such as ``3.13.0``; empty if it does not say.
        patches: What became of each of our patches for it.
    """

    folder: Path
    tag: str
    version: str
    digest: str
    kind: Literal["pinned", "tag", "alternate"]
    release: str = ""
    patches: tuple[AppliedPatch, ...] = ()

    @property
    def key(self) -> str:
        """Names the content with our patches; the digest if none of them changed it."""
        applied = [patch.sha256 for patch in self.patches if patch.state == "applied"]
        return make_key(onednn=self.digest, patches=applied) if applied else self.digest


def get_onednn(context: BuildContext, tag: str, pin: OneDnnPin, *, environ: Mapping[str, str] = os.environ) -> OneDnn:
    """Return oneDNN's sources.

    The commit comes from the store, else from ``CPUWHEELS_ONEDNN_REPO`` (a local clone or a remote), else
    from the pin's repositories. Where none of them can be reached, a fallback is used.

    Args:
        context: The run; if it is locked, fallbacks are refused.
        tag: GIT_TAG in upstream's CMake.
        pin: The commit behind it, repositories and fallbacks.
        environ: Where ``CPUWHEELS_ONEDNN_REPO`` is looked up.

    Raises:
        LockedError: Only a fallback can be fetched and ``locked`` is set.
        OneDnnError: Neither can be fetched.
    """
    repositories = repositories_of(pin.repositories, REPOSITORY_VARIABLE, environ)
    source = GitSource("oneDNN", "onednn", tag, repositories, REPOSITORY_VARIABLE, OneDnnError)
    try:
        found = settle(
            source,
            pin.commit,
            store=context.store,
            reporter=context.reporter,
            logs=context.logs,
            locked=context.options.locked,
            where="matrix.yaml: onednn",
        )
    except OneDnnError as error:
        return _alternate(context, tag, pin, error)
    return OneDnn(found.folder, tag, found.commit, found.commit, found.kind, _release(found.folder))


def patch_onednn(context: BuildContext, found: OneDnn, *, released: bool) -> OneDnn:
    """Return the sources with our patches for oneDNN, or as they are if there is none for the target.

    Args:
        context: The run; its project has the patches.
        found: As it was published.
        released: Whether it is for a release of vLLM. Others need no patch that fixes a fault.

    Raises:
        OneDnnError: There are patches, and nothing says which version it is.
        PatchError: A patch is missing, or neither applies nor is already upstream.
    """
    series, target = load_series(context.root), context.target.id
    if not series.changes("onednn", target):
        return found
    if not found.release:
        raise OneDnnError(
            f"the version of oneDNN {found.tag} cannot be told, so that its patches cannot be chosen",
            where=found.folder / _PROJECT,
            next_step="look how it sets its version now, and teach cpuwheels/source/onednn.py to read that",
        )
    options = context.options
    patches = series.chosen(
        found.release,
        target,
        with_fixes=not options.upstream_kernels,
        with_speed=not options.upstream_speed,
        source="onednn",
    )
    if not patches:
        return found
    tree = Unpatched(f"oneDNN {found.release}", found.folder, found.digest, released)
    folder, applied = patched_tree(context, tree, patches)
    return replace(found, folder=folder, patches=applied)


def choose_onednn(tags: Sequence[str], pins: Mapping[str, OneDnnPin], machine: str) -> tuple[str, OneDnnPin] | None:
    """Return the pin that upstream uses on a machine, and its GIT_TAG; None if the source names none.

    A source may name several, some of them for certain machines only; the steering checks that CMake asks for this one.
    A tag that the matrix does not pin gets a pin without commit and fallback, with the repositories of all others.

    Args:
        tags: GIT_TAGs that a source names.
        pins: The matrix's, by tag.
        machine: What ``platform.machine()`` returns on the target.
    """
    meant = onednn_pins({tag: pins[tag] for tag in tags if tag in pins}, machine)
    if meant:
        return next(iter(meant.items()))
    unknown = next((tag for tag in tags if tag not in pins), None)
    repositories = tuple(dict.fromkeys(place for pin in pins.values() for place in pin.repositories))
    return (unknown, OneDnnPin(repositories=repositories)) if unknown and repositories else None


def onednn_pins(pins: Mapping[str, OneDnnPin], machine: str) -> dict[str, OneDnnPin]:
    """Return the pins that are meant for a machine: those that name it, else those that name none."""
    own = {tag: pin for tag, pin in pins.items() if machine in pin.machines}
    return own or {tag: pin for tag, pin in pins.items() if not pin.machines}


def _alternate(context: BuildContext, tag: str, pin: OneDnnPin, reason: OneDnnError) -> OneDnn:
    if not pin.alternates:
        raise reason
    if context.options.locked and not context.options.allow_fallbacks:
        raise LockedError(
            f"oneDNN {tag} cannot be reached and --locked refuses fallbacks",
            where=reason.where,
            output=reason.output,
            next_step=f"name a clone in {REPOSITORY_VARIABLE}; or take the fallback with --allow-fallbacks, or build "
            "without --locked",
        ) from reason
    fault: CpuwheelsError = reason
    for alternate in pin.alternates:
        try:
            folder = get_debian_source(context, "onednn", "oneDNN", alternate)
        except DownloadError as error:
            fault = error
            continue
        context.reporter.announce(
            f"oneDNN {tag} cannot be reached; building with the fallback {alternate.version} "
            "instead. The build record and the wheel's metadata say so."
        )
        return OneDnn(folder, tag, alternate.version, alternate.sha256, "alternate", _release(folder))
    raise OneDnnError(
        f"neither oneDNN {tag} nor its fallback can be fetched",
        where=reason.where,
        output="\n".join([reason.output, fault.output or fault.what]),
        next_step=f"name a clone in {REPOSITORY_VARIABLE}, or make a mirror reachable (docs/mirrors.md)",
    ) from fault


def _release(folder: Path) -> str:
    """Return what oneDNN's own build calls its version."""
    try:
        found = _RELEASE.search((folder / _PROJECT).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""
    return found[1] if found else ""
