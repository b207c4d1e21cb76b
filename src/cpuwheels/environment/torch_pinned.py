"""A wheel of torch that is pinned by content, fetched from one place without uv: uv gets no network in a locked run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import DigestMismatchError, DownloadError
from cpuwheels.fetch.download import Pinned, fetch
from cpuwheels.fetch.requests import is_locked
from cpuwheels.fetch.simple_index import index_files

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.environment.torch_index import TorchOffer


def place_options(
    offer: TorchOffer, digests: Collection[str], *, store: Store, reporter: Reporter
) -> tuple[list[str], str]:
    """Return the options with which uv or pip looks for torch at a place, and why it cannot.

    In a locked run the pinned wheel of a place on the network is fetched here, and they look into its folder.

    Args:
        offer: The place.
        digests: sha256 digests that the wheel may have.
        store: Where it is kept.
        reporter: Reports the download.

    Raises:
        LockedError: The list of the run's downloads does not have the place, or the wheel.
    """
    if not is_locked() or not offer.page:
        return offer.uv_options(), ""
    try:
        wheel = _fetched(offer, digests, store, reporter)
    except (DownloadError, DigestMismatchError) as error:
        return [], error.what
    if wheel is None:
        return [], "it has no wheel with the pinned digest"
    return ["--no-index", "--find-links", str(wheel.parent)], ""


def _fetched(offer: TorchOffer, digests: Collection[str], store: Store, reporter: Reporter) -> Path | None:
    found = index_files(offer.page, setting="UV_INDEX") or []
    wheel = next((file for file in found if file.sha256 in digests), None)
    if wheel is None:
        return None
    pinned = Pinned(wheel.name, (wheel.url,), wheel.sha256, file_name=wheel.name)
    return fetch(pinned, store, on_bytes=lambda done, total: reporter.download(wheel.name, done, total))
