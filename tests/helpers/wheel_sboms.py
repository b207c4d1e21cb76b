"""The bill of materials of a wheel that a test writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from cpuwheels.audit.sbom import LIBRARY
from cpuwheels.core.text import parse_headers
from cpuwheels.pipeline.provenance import WheelNote
from cpuwheels.pipeline.sbom import Subject, wheel_sbom
from cpuwheels.wheel.sbom.schema import FILE
from cpuwheels.wheel.wheel_metadata import required_torch


def with_sbom(members: Mapping[str, bytes], info: str, wheel: str) -> dict[str, bytes]:
    """Return members of a wheel with the bill of materials that belongs to them and their note.

    Args:
        members: By their names.
        info: The ``.dist-info`` folder.
        wheel: File name of the wheel.
    """
    note = WheelNote.model_validate_json(members[f"{info}/cpuwheels.json"])
    fields = parse_headers(members[f"{info}/METADATA"])
    torch = required_torch(fields.get_all("Requires-Dist", []), wheel)
    subject = Subject(wheel, fields["Name"], fields["Version"], fields.get("License-Expression", ""), torch)
    binaries = {name: hashlib.sha256(data).hexdigest() for name, data in members.items() if LIBRARY.fullmatch(name)}
    return {**members, f"{info}/{FILE}": wheel_sbom(note, subject, binaries)}
