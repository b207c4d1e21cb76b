"""Removing files from an index: what somebody began and did not finish is finished by the next publisher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from cpuwheels.core.models import Strict
from cpuwheels.index.layout import REMOVAL
from cpuwheels.index.reading import damaged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cpuwheels.index.bucket import Bucket


class Removal(Strict):
    """What is being removed."""

    format: Literal[1] = 1
    paths: tuple[str, ...]


def remove_files(bucket: Bucket, paths: Iterable[str]) -> None:
    """Remove files that no page leads to any more, in their order; the caller holds the index.

    Raises:
        PublishError: One cannot be removed.
    """
    removal = Removal(paths=tuple(paths))
    if removal.paths:
        bucket.write(REMOVAL, removal.model_dump_json(indent=1).encode())
        _remove(bucket, removal)


def finish_removal(bucket: Bucket) -> None:
    """Finish what was begun; the caller holds the index.

    Raises:
        PublishError: Its journal is damaged, or a file cannot be removed.
    """
    content = bucket.read(REMOVAL)
    if content is None:
        return
    try:
        removal = Removal.model_validate_json(content)
    except ValidationError as error:
        raise damaged(
            bucket, REMOVAL, error, next_step="remove it; check-index names the files that are left"
        ) from error
    _remove(bucket, removal)


def _remove(bucket: Bucket, removal: Removal) -> None:
    for path in removal.paths:
        bucket.remove(path)
    bucket.remove(REMOVAL)
