"""Kernels that go from the machine that compiled them to those that pack wheels of them: a shared store of one job.

Their audit goes with them, so that it is done once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.attestation.keys import PUBLIC, open_signer
from cpuwheels.core.errors import FarmError
from cpuwheels.core.store import Store
from cpuwheels.core.trust import Trust
from cpuwheels.farm.done import put_files, with_files
from cpuwheels.shared.description import description_path
from cpuwheels.shared.folder import Folder
from cpuwheels.shared.kinds import AUDITED, GROWING, KERNELS
from cpuwheels.shared.push import Sharer
from cpuwheels.shared.wanted import shareable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.config.paths import Paths
    from cpuwheels.farm.done import Done
    from cpuwheels.farm.site import Site

KINDS = (KERNELS, AUDITED)
"""The kinds of entries that are carried, with the lists and tables that belong to them."""

_FOLDER = "kernels"

_LEVEL = 1
"""Of compression: on kernels of x86 a third of the CPU time of level 6, for a sixth more bytes."""


def carried_kernels(done: Done, site: Site, places: Paths, folder: Path) -> Done:
    """Return the result of a job with its kernels, as a shared store has them.

    Nothing of vLLM runs here: what is packed is what this program took over from the build, and sealed.

    Args:
        done: What the job came to, with the keys of its kernels and their audit.
        site: Where it was done.
        places: Folders of the job, with its stores.
        folder: Of the job's own files.

    Raises:
        FarmError: They are not whole, or too large.
        CpuwheelsError: They cannot be signed or written.
    """
    signer = open_signer(str(site.key), None) if site.key else None
    store, given = Store(places.cache), folder / _FOLDER
    sharer = Sharer(store, Folder(given), signer, [signer.public_key] if signer else None, level=_LEVEL)
    for wanted in shareable(store, {KERNELS: {done.kernels}, AUDITED: {done.audit}}):
        if wanted.kind not in {*KINDS, *GROWING}:
            continue
        outcome = sharer.share(wanted)
        if wanted.kind in KINDS and outcome.state != "shared":
            raise FarmError(
                f"{wanted.kind} {wanted.key} are not carried: {outcome.why or outcome.state}",
                where=site.name,
                next_step="see what is wrong with the stores of that machine",
            )
    return with_files(done, given)


def kernel_options(given: Sequence[Done], site: Site, places: Paths, folder: Path) -> tuple[str, ...]:
    """Return the options with which a build takes the kernels that another job made; none if it needs none.

    It needs none if there are none, or if its own stores have all of them, since it looks there first.

    Args:
        given: Results of the jobs before it.
        site: Where the build runs.
        places: Folders of the job, with its stores.
        folder: Of the job's own files.

    Raises:
        FarmError: The files are not those that the result names.
    """
    kernels = next((one for one in given if one.kernels and one.content), None)
    if kernels is None or _are_there(kernels, Store(places.cache)):
        return ()
    put_files(kernels, folder / _FOLDER)
    signed = ("--store-key", f"{site.key}{PUBLIC}") if site.key else ()
    return ("--store", str(folder / _FOLDER), *signed)


def _are_there(done: Done, store: Store) -> bool:
    """Return whether stores have each entry that is carried, from those who vouch for the one that is carried."""
    keys = {KERNELS: done.kernels, AUDITED: done.audit}
    carried = [
        (trust, kind, key)
        for trust in Trust
        for kind, key in keys.items()
        if key and description_path(kind, key, trust) in done.files
    ]
    return bool(carried) and all(store.trusting(trust).path(kind, key).is_dir() for trust, kind, key in carried)
