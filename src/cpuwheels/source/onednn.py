"""oneDNN's sources: the commit that upstream pins, else the alternate, said aloud."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from cpuwheels.config.pins import OneDnnPin
from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import DownloadError, LockedError, OneDnnError
from cpuwheels.fetch.download import Pinned, fetch, mirrored
from cpuwheels.fetch.git_archive import GitSource, repositories_of, settle
from cpuwheels.fetch.tarball import unpack_tar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.pins import OneDnnAlternate
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import CpuwheelsError
    from cpuwheels.core.store import Store

REPOSITORY_VARIABLE = "CPUWHEELS_ONEDNN_REPO"


@dataclass(frozen=True)
class OneDnn:
    """oneDNN's sources in the store; read only.

    Attributes:
        folder: The tree.
        tag: The GIT_TAG upstream asks for.
        version: The commit, or the alternate's version.
        digest: Names the content: the commit, or the archive's sha256.
        kind: Whether it is the pinned commit, what the tag named when it was asked for, or an alternate.
    """

    folder: Path
    tag: str
    version: str
    digest: str
    kind: Literal["pinned", "tag", "alternate"]


def get_onednn(
    tag: str,
    pin: OneDnnPin,
    mirrors: Sequence[str],
    *,
    store: Store,
    reporter: Reporter,
    logs: Path,
    locked: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> OneDnn:
    """Return oneDNN's sources.

    The commit comes from the store, else from ``CPUWHEELS_ONEDNN_REPO`` (a local clone or a remote), else
    from the pin's repositories. Where none of them can be reached an alternate takes its place.

    Args:
        tag: GIT_TAG in upstream's CMake.
        pin: The commit behind it, repositories and alternates.
        mirrors: Debian mirrors for the alternates.
        store: Where sources are kept.
        reporter: Told of an alternate, aloud.
        logs: Folder for git's log.
        locked: Refuse alternates.
        environ: Where ``CPUWHEELS_ONEDNN_REPO`` is looked up.

    Raises:
        LockedError: Only an alternate can be had and ``locked`` is set.
        OneDnnError: Neither can be had.
    """
    repositories = repositories_of(pin.repositories, REPOSITORY_VARIABLE, environ)
    source = GitSource("oneDNN", "onednn", tag, repositories, REPOSITORY_VARIABLE, OneDnnError)
    try:
        found = settle(
            source, pin.commit, store=store, reporter=reporter, logs=logs, locked=locked, where="matrix.yaml: onednn"
        )
    except OneDnnError as error:
        return _alternate(tag, pin, mirrors, error, store=store, reporter=reporter, locked=locked)
    return OneDnn(found.folder, tag, found.commit, found.commit, found.kind)


def choose_onednn(tags: Sequence[str], pins: Mapping[str, OneDnnPin], machine: str) -> tuple[str, OneDnnPin] | None:
    """Return the pin that upstream uses on a machine, and its GIT_TAG; None if the source names none.

    Of several that a source names, one may be for some machines alone; steering checks that CMake asks for it. For one
    that the matrix does not pin it is a pin without commit and alternate, with the repositories of all others.

    Args:
        tags: GIT_TAGs that a source names.
        pins: The matrix's, by tag.
        machine: As ``platform.machine()`` says on the target.
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


def _alternate(
    tag: str,
    pin: OneDnnPin,
    mirrors: Sequence[str],
    reason: OneDnnError,
    *,
    store: Store,
    reporter: Reporter,
    locked: bool,
) -> OneDnn:
    if not pin.alternates:
        raise reason
    if locked:
        raise LockedError(
            f"oneDNN {tag} cannot be reached and --locked refuses alternates",
            where=reason.where,
            output=reason.output,
            next_step=f"name a clone in {REPOSITORY_VARIABLE}, or build without --locked",
        ) from reason
    fault: CpuwheelsError = reason
    for alternate in pin.alternates:
        make = partial(_unpack, alternate, mirrors, store, reporter)
        try:
            folder = store.get("onednn", make_key(archive=alternate.sha256, layout=1), make)
        except DownloadError as error:
            fault = error
            continue
        reporter.announce(
            f"oneDNN {tag} cannot be reached; building with the alternate {alternate.version} "
            "instead. The build record and the wheel's metadata say so."
        )
        return OneDnn(folder, tag, alternate.version, alternate.sha256, "alternate")
    raise OneDnnError(
        f"neither oneDNN {tag} nor an alternate can be had",
        where=reason.where,
        output="\n".join([reason.output, fault.output or fault.what]),
        next_step=f"name a clone in {REPOSITORY_VARIABLE}, or make a mirror reachable (docs/mirrors.md)",
    ) from fault


def _unpack(alternate: OneDnnAlternate, mirrors: Sequence[str], store: Store, reporter: Reporter, folder: Path) -> None:
    name = f"oneDNN {alternate.version} sources"
    archive = fetch(
        Pinned(name, mirrored(alternate.debian, mirrors), alternate.sha256, alternate.size),
        store,
        on_bytes=lambda done, total: reporter.download(name, done, total),
    )
    unpack_tar(archive, folder)
