"""A bill of materials as bytes: CycloneDX as JSON, the same for the same parts, in whatever order they are given.

``formulation`` is added to what cyclonedx-python-lib writes: the schema has it, not so the library's model (11.12).
Its components are written by the library, too.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot7

from cpuwheels.core.text import stable_json
from cpuwheels.wheel.sbom.parts import reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WITHOUT = uuid.UUID(int=0)
"""The serial number of a document that has none yet."""

_LAST = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
"""Last second that a calendar has; a commit may say a later one."""


@dataclass(frozen=True)
class Formulation:
    """How something was made.

    Attributes:
        uid: Names this way of making it.
        components: What was used.
        tasks: Name of a step → references of what it used.
    """

    uid: str
    components: Sequence[Component]
    tasks: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Document:
    """A bill of materials.

    Attributes:
        subject: What it is of.
        epoch: When that was made, in seconds since 1970 (``SOURCE_DATE_EPOCH``).
        components: What the subject contains or requires.
        formulation: How it was made.
        required: Reference of a component → references of those that it needs; the subject needs all others.
    """

    subject: Component
    epoch: int
    components: Sequence[Component]
    formulation: Formulation | None = None
    required: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def render(self) -> bytes:
        """Return the document. Its serial number is a digest of the rest (UUID version 5)."""
        data = self._data()
        del data["serialNumber"]
        digest = hashlib.sha256(stable_json(data)).hexdigest()
        return stable_json(data | {"serialNumber": uuid.uuid5(uuid.NAMESPACE_OID, digest).urn})

    def _data(self) -> dict[str, Any]:
        own = _own_program()
        bom = Bom(
            serial_number=_WITHOUT,
            metadata=BomMetaData(
                component=self.subject,
                timestamp=datetime.fromtimestamp(min(self.epoch, _LAST), UTC),
                lifecycles=[PredefinedLifecycle(LifecyclePhase.BUILD)],
                tools=ToolRepository(components=[own]),
            ),
            components=self.components,
        )
        known = {reference(each): each for each in self.components}
        bom.register_dependency(self.subject, self.components)
        for name, needed in self.required.items():
            bom.register_dependency(known[name], [known[each] for each in needed])
        data = _written(bom)
        if self.formulation is not None:
            data["formulation"] = [_formula(self.formulation)]
        return data


def _own_program() -> Component:
    """Return this program as the tool that wrote a document.

    Without a version: the same inputs give the same bytes, also after a change to this project that has to do with
    something else.
    """
    return Component(name="cpuwheels", type=ComponentType.APPLICATION, bom_ref="application:cpuwheels")


def _formula(formulation: Formulation) -> dict[str, Any]:
    transient = Bom(serial_number=_WITHOUT, components=formulation.components)
    tasks = [
        {
            "bom-ref": f"task:{name}",
            "uid": f"{formulation.uid}:{name}",
            "name": name,
            "taskTypes": ["build"],
            "resourceReferences": [{"ref": reference} for reference in sorted(references)],
        }
        for name, references in formulation.tasks.items()
    ]
    workflow = {"bom-ref": "workflow:build", "uid": formulation.uid, "taskTypes": ["build"], "tasks": tasks}
    return {
        "bom-ref": "formula:build",
        "components": _written(transient).get("components", []),
        "workflows": [workflow],
    }


def _written(bom: Bom) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(JsonV1Dot7(bom).output_as_string())
    return data
