"""Whether a bill of materials keeps to the schema of CycloneDX, whoever wrote it."""

from __future__ import annotations

from typing import Any

from cpuwheels.core.errors import MalformedDataError
from cpuwheels.core.parse import parse_json

FILE = "sboms/cpuwheels.cdx.json"
"""Its name below ``.dist-info`` (PEP 770)."""

SPECIFICATION = "1.7"
"""The version of CycloneDX that is written."""

LONGEST = 512 << 10
"""Bytes of a document. That of vLLM 0.33.0 has 110 KiB."""

_ENTRIES = 512
"""Entries of a list: the schema compares each with each."""

_SHOWN = 200


def read_document(content: bytes) -> dict[str, Any]:
    """Return a document that keeps to the schema.

    Raises:
        ValueError: It does not; the message says where.
    """
    try:
        data = parse_json(content, FILE, limit=LONGEST)
    except MalformedDataError as error:
        raise ValueError(error.what) from error
    if not isinstance(data, dict) or data.get("bomFormat") != "CycloneDX" or data.get("specVersion") != SPECIFICATION:
        raise ValueError(f"not CycloneDX {SPECIFICATION}")
    if _longest(data) > _ENTRIES:
        raise ValueError(f"not the list of a wheel: it has a list of more than {_ENTRIES} entries")
    if fault := _fault(content.decode()):
        raise ValueError(f"not CycloneDX {SPECIFICATION}: {fault}")
    return data


def _longest(data: object) -> int:
    """Return the length of the longest list in a document."""
    longest, ahead = 0, [data]
    while ahead:
        value = ahead.pop()
        if isinstance(value, list):
            longest = max(longest, len(value))
            ahead += value
        elif isinstance(value, dict):
            ahead += value.values()
    return longest


def _fault(text: str) -> str:
    """Return where a document first differs from the schema; empty if it does not."""
    # Only here: importing the validator takes longer than reading a wheel.
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    error = JsonStrictValidator(SchemaVersion.V1_7).validate_str(text)
    if error is None:
        return ""
    place = "/".join(str(part) for part in error.data.absolute_path) or "its top"
    return f"{place}: {error.data.message}"[:_SHOWN]
