"""A commit's wheel from an index of wheels by commit, laid out as https://wheels.vllm.ai is: ``<hash>/cpu/vllm/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cpuwheels.download import Pinned, fetch
from cpuwheels.simple_index import index_files
from cpuwheels.storage import link_or_copy, remove_tree, storage_errors

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import Target
    from cpuwheels.simple_index import IndexFile
    from cpuwheels.store import Store

PROJECT = "vllm"


def wheel_from_index(
    index: str, commit: str, target: Target, folder: Path, *, store: Store, reporter: Reporter
) -> Path | None:
    """Return a commit's wheel, checked against the digest that the index says; None if the index has none.

    Args:
        index: Address of the index.
        commit: Full hash.
        target: What the wheel has to be for.
        folder: Emptied, then holds the wheel alone.
        store: Where downloads are kept.
        reporter: Told of a wheel without a digest, which is not taken.

    Raises:
        DownloadError: The index does not answer, or the wheel cannot be fetched.
        DigestMismatchError: The wheel has other bytes.
    """
    page = f"{index.rstrip('/')}/{commit}/cpu/{PROJECT}/"
    files = [file for file in index_files(page, setting="--index") or [] if _is_for(file, target)]
    if not files:
        return None
    file = files[0]
    if file.sha256 is None:
        reporter.announce(f"{page} says no sha256 of {file.name}; it is not taken")
        return None
    pinned = Pinned(file.name, (file.url,), file.sha256)
    fetched = fetch(pinned, store, on_bytes=lambda done, total: reporter.download(file.name, done, total))
    with storage_errors(folder):
        remove_tree(folder)
        folder.mkdir(parents=True)
        link_or_copy(str(fetched), str(folder / file.name))
    return folder / file.name


def _is_for(file: IndexFile, target: Target) -> bool:
    try:
        name, _, _, tags = parse_wheel_filename(file.name)
    except InvalidWheelFilename:
        return False
    system = "macosx" if target.system == "Darwin" else "linux"
    return name == PROJECT and any(
        system in tag.platform and tag.platform.endswith(f"_{target.machine}") for tag in tags
    )
