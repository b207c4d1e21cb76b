"""The reports next to the wheel."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from cpuwheels.core.filesystem import make_folders, storage_errors, write_atomic
from cpuwheels.verification.parity.html import parity_page
from cpuwheels.verification.parity.junit import junit_xml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.verification.parity.results import Parity

_REMEDY = "make the folder writable, or pass --out"

JSON, XML, HTML = "parity.json", "parity.xml", "parity.html"


def parity_file(place: Path) -> Path:
    """Return the ``parity.json`` that is named, or that lies next to the wheel that is named."""
    return place.with_name(JSON) if place.suffix == ".whl" else place


def write_reports(folder: Path, parity: Parity) -> list[Path]:
    """Write ``parity.xml``, ``parity.html`` and, last, ``parity.json``, each in one rename.

    Raises:
        StoreError: The folder cannot be written.
    """
    texts = {XML: junit_xml(parity).decode(), HTML: parity_page(parity), JSON: parity.model_dump_json(indent=1) + "\n"}
    return write_files(folder, texts)


def prepare_folder(out: Path | None, wheel: Path) -> Path:
    """Return the folder of the reports on a wheel; that files can be made there is checked before a test takes minutes.

    Args:
        out: The folder, if one was chosen; it is made.
        wheel: The wheel, next to which they are written otherwise.

    Raises:
        StoreError: No file can be made there.
    """
    folder = out or wheel.parent
    if out or wheel.is_file():
        with storage_errors(folder, next_step=_REMEDY):
            make_folders(folder)
            tempfile.TemporaryFile(dir=folder).close()
    return folder


def write_files(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files into a folder in the order given, each in one rename.

    Raises:
        StoreError: The folder cannot be written.
    """
    with storage_errors(folder, next_step=_REMEDY):
        for name, text in texts.items():
            write_atomic(folder / name, text)
    return [folder / name for name in texts]
