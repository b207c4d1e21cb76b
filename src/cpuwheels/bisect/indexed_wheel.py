"""A commit's wheel from an index of wheels by commit, laid out as https://wheels.vllm.ai is: ``<hash>/cpu/vllm/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import link_or_copy, remove_tree, storage_errors
from cpuwheels.fetch.vllm_wheels import PROJECT, fetch_wheel, indexed_wheels

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store


def wheel_from_index(
    index: str, commit: str, target: Target, folder: Path, *, store: Store, reporter: Reporter
) -> Path | None:
    """Return a commit's wheel, checked against the index's digest; None if the index has no wheel.

    Args:
        index: Address of the index.
        commit: Full hash.
        target: What the wheel has to be for.
        folder: Emptied, then holds the wheel alone.
        store: Where downloads are kept.
        reporter: Told of a wheel without a digest, which is not used.

    Raises:
        DownloadError: The index does not answer, or the wheel cannot be fetched.
        DigestMismatchError: The wheel has other bytes.
    """
    page = f"{index.rstrip('/')}/{commit}/cpu/{PROJECT}/"
    files = indexed_wheels(page, target, reporter, setting="--index")
    if not files:
        return None
    file = files[0]
    fetched = fetch_wheel(file, store, reporter)
    with storage_errors(folder):
        remove_tree(folder)
        folder.mkdir(parents=True)
        link_or_copy(str(fetched), str(folder / file.name))
    return folder / file.name
