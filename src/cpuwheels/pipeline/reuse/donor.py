"""The wheel whose kernels are used: by its own record they were made from the inputs of this source's kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import PrecompiledError, UnsafeArchiveError, UsageError, WheelError
from cpuwheels.core.text import first_lines
from cpuwheels.core.trust import Trust
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.kernels.manifest import FILE, KernelManifest
from cpuwheels.kernels.tcmalloc import tcmalloc_digest
from cpuwheels.pipeline.provenance import WheelNote, read_note
from cpuwheels.pipeline.reuse.candidates import candidates, check_place
from cpuwheels.wheel.dist_info import NOTE, dist_info_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.kernels.request import KernelInputs

_SHOWN = 20
"""Differences that a message lists."""


@dataclass(frozen=True)
class Donor:
    """A wheel whose kernels are those of a source.

    Attributes:
        wheel: The file.
        sha256: Its digest.
        origin: Where it was, for people.
        manifest: What its kernels were made from, by its own record.
        note: What the whole wheel was made from and what its audit found, by its own record.
    """

    wheel: Path
    sha256: str
    origin: str
    manifest: KernelManifest
    note: WheelNote


def check_request(options: BuildOptions) -> None:
    """Refuse options that mean nothing where nothing is compiled, and a place on this machine that is not there.

    Raises:
        UsageError: One of the options is given.
        PrecompiledError: There is no such place.
    """
    refused = {
        "--locked": (options.locked, "which compiler made them is not checked"),
        "--debug-symbols": (options.debug_symbols, "a wheel has none"),
    }
    for option, (given, why) in refused.items():
        if given:
            raise UsageError(
                f"{option} and --kernels-from exclude each other: {why}", where=option, next_step="leave out one"
            )
    if options.kernels_from:
        check_place(options.kernels_from)


def find_donor(context: BuildContext, place: str, inputs: KernelInputs, chooser: str | None) -> Donor:
    """Return the first wheel of a place whose kernels are those of a source.

    Of wheels on a server, only the record of their kernels is read until one is found.

    Args:
        context: The run; its store keeps downloads.
        place: A wheel, a folder of wheels, the URL of a wheel with ``#sha256=``, or an index.
        inputs: What the source's kernels are made from.
        chooser: Digest of the sources of the module that chooses among them, if the target has one.

    Raises:
        PrecompiledError: There is none; the differences to the nearest one are listed.
        DownloadError: The server does not answer.
        DigestMismatchError: A wheel has other bytes than the index says.
    """
    nearest: tuple[str, list[str]] | None = None
    tcmalloc = tcmalloc_digest(context.matrix, context.target)
    faults: list[str] = []
    for offer in candidates(context, place):
        try:
            with offer.peek() as stream:
                said = read_manifest(stream)
        except ValueError as error:
            faults.append(f"{offer.name}: {error}")
            continue
        differences = said.differences(inputs, chooser, tcmalloc)
        if not differences:
            donor = read_donor(offer.get(), offer.origin)
            if donor.manifest != said:
                raise PrecompiledError(
                    f"{offer.name} is not what it was a moment ago", where=offer.origin, next_step="try again"
                )
            differences = _trusted_less(donor, context)
        if not differences:
            context.reporter.info(f"kernels {said.kernels} of {offer.name}; nothing to compile")
            return donor
        if nearest is None or len(differences) < len(nearest[1]):
            nearest = offer.name, differences
    if nearest is None:
        raise PrecompiledError(
            f"no wheel there says what its kernels for {inputs.target.id} were made from",
            where=place,
            output="\n".join(faults[:_SHOWN]),
            next_step="give wheels that cpuwheels built, or leave out --kernels-from",
        )
    name, differences = nearest
    raise PrecompiledError(
        f"the kernels of {name} are not those of this source: {len(differences)} "
        f"difference{'s' if len(differences) > 1 else ''}",
        where=place,
        output="\n".join(first_lines(differences, _SHOWN)),
        next_step="leave out --kernels-from, and they are compiled",
    )


def _trusted_less(donor: Donor, context: BuildContext) -> list[str]:
    """Return why a wheel's kernels are not offered to the source of a run, whatever they were made from."""
    pinned = {release.sdist.sha256 for release in context.matrix.releases}
    source = donor.note.source
    if context.store.trust is not Trust.RELEASE or source.digest in pinned:
        return []
    return [f"it was built from {source.version}, which matrix.yaml does not pin, and this source is a pinned release"]


def read_donor(wheel: Path, origin: str) -> Donor:
    """Read a wheel's record of itself.

    Raises:
        PrecompiledError: It has none.
    """
    try:
        with wheel.open("rb") as stream:
            said, note = read_manifest(stream), read_note(stream)
    except (OSError, ValueError) as error:
        raise PrecompiledError(f"{wheel.name}: {error}", where=origin, next_step="leave out --kernels-from") from error
    if note is None:
        raise PrecompiledError(f"{wheel.name}: it has no {NOTE}", where=origin, next_step="leave out --kernels-from")
    return Donor(wheel, file_digest(wheel), origin, said, note)


def read_manifest(stream: IO[bytes]) -> KernelManifest:
    """Return what a wheel's kernels were made from, by its own record.

    Args:
        stream: The wheel; only the end of it and this one file are read.

    Raises:
        ValueError: It is not a wheel, says nothing of the kind, or nothing that this version understands.
    """
    try:
        return KernelManifest.model_validate_json(_read(stream, FILE))
    except ValidationError as error:
        raise ValueError(f"its {FILE} is of another version of cpuwheels") from error


def _read(stream: IO[bytes], name: str) -> bytes:
    try:
        with open_zip(stream, members_too=False) as archive:
            return archive.read(f"{dist_info_of(archive.names)}/{name}")
    except KeyError as error:
        raise ValueError(f"it has no {name}: it was not built by this version of cpuwheels") from error
    except (UnsafeArchiveError, WheelError) as error:
        raise ValueError(f"it is not a wheel: {error.what}") from error
