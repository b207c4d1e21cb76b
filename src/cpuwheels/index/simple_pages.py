"""The pages of one view: HTML (PEP 503), JSON (PEP 691), and the metadata.json of https://wheels.vllm.ai."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from cpuwheels.core.parse import parse_json
from cpuwheels.core.templates import templates
from cpuwheels.fetch.vllm_wheels import PROJECT
from cpuwheels.index.entry import VARIANT, Entry
from cpuwheels.index.layout import HTML, JSON, METADATA_JSON, link, project_folder, wheel_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cpuwheels.core.models import Strict

API_VERSION = "1.3"
"""Of the simple repository API: with sizes and upload times (PEP 700), and provenance (PEP 740)."""

PRIVATE = "_cpuwheels"
"""Key of values that only this project reads; other readers ignore keys that begin so (PEP 691)."""


def view_pages(view: str, entries: Iterable[Entry]) -> dict[str, str]:
    """Return the texts of a view's pages by their paths, in the order in which they are to be written.

    No page comes before one that it links to.

    Args:
        view: Its folder.
        entries: The wheels that it lists.
    """
    listed = sorted(entries, key=lambda entry: (entry.target, Version(entry.version), entry.filename))
    folder = project_folder(view)
    return {
        f"{folder}/{HTML}": _html(f"Links for {PROJECT}", [_anchor(folder, entry) for entry in listed]),
        f"{folder}/{METADATA_JSON}": _json([_wheel(folder, entry) for entry in listed]),
        f"{folder}/{JSON}": _json(_project(folder, listed)),
        f"{view}/{VARIANT}/{JSON}": _json({"meta": {"api-version": API_VERSION}, "projects": [{"name": PROJECT}]}),
        f"{view}/{VARIANT}/{HTML}": _html("Simple index", [(f"{PROJECT}/", PROJECT, {})]),
    }


def page_text(page: Strict) -> str:
    """Return the text of a page that is one model."""
    return page.model_dump_json(indent=1) + "\n"


def read_view(page: bytes) -> list[Entry]:
    """Return the entries of a view's JSON page.

    Raises:
        ValueError: It is not a page that this version writes.
    """
    try:
        files = parse_json(page, "a page of the index")["files"]
        return [Entry.model_validate_json(json.dumps(file[PRIVATE])) for file in files]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"it is not a page that this version writes: {error!r}") from error


def _anchor(folder: str, entry: Entry) -> tuple[str, str, dict[str, str]]:
    url = f"{link(folder, wheel_path(entry))}#sha256={entry.sha256}"
    digest = f"sha256={entry.metadata_sha256}"
    # PEP 714: the second name is what older clients look for.
    attributes = {"data-core-metadata": digest, "data-dist-info-metadata": digest}
    if entry.requires_python:
        attributes["data-requires-python"] = entry.requires_python
    if entry.signed and entry.signed.url:
        attributes["data-provenance"] = entry.signed.url
    return url, entry.filename, attributes


def _html(title: str, anchors: Sequence[tuple[str, str, dict[str, str]]]) -> str:
    return (
        templates("cpuwheels.index")
        .get_template("simple.html.j2")
        .render(api_version=API_VERSION, title=title, anchors=anchors)
    )


def _project(folder: str, entries: Sequence[Entry]) -> dict[str, Any]:
    return {
        "meta": {"api-version": API_VERSION},
        "name": PROJECT,
        "versions": sorted({entry.version for entry in entries}, key=Version),
        "files": [_file(folder, entry) for entry in entries],
    }


def _file(folder: str, entry: Entry) -> dict[str, Any]:
    digest = {"sha256": entry.metadata_sha256}
    return {
        "filename": entry.filename,
        "url": link(folder, wheel_path(entry)),
        "hashes": {"sha256": entry.sha256},
        **({"requires-python": entry.requires_python} if entry.requires_python else {}),
        "core-metadata": digest,
        "dist-info-metadata": digest,
        "size": entry.size,
        "upload-time": entry.uploaded,
        **({"provenance": entry.signed.url} if entry.signed and entry.signed.url else {}),
        PRIVATE: entry.model_dump(mode="json"),
    }


def _wheel(folder: str, entry: Entry) -> dict[str, Any]:
    """Return a row of ``metadata.json``; one for each wheel, its tags joined as in the file name."""
    _, version, build, _ = parse_wheel_filename(entry.filename)
    python, abi, platform = entry.filename.removesuffix(".whl").split("-")[-3:]
    return {
        "package_name": PROJECT,
        "version": str(version),
        "build_tag": "".join(map(str, build)) or None,
        "python_tag": python,
        "abi_tag": abi,
        "platform_tag": platform,
        "variant": VARIANT,
        "filename": entry.filename,
        "path": link(folder, wheel_path(entry)),
    }


def _json(data: object) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
