"""Schemas whose descriptions are the docstrings below the fields."""

from __future__ import annotations

from cpuwheels.config.described import described_schema
from cpuwheels.core.models import Strict


class Wheel(Strict):
    """A file."""

    size: int
    """Bytes, after
    it was packed."""
    name: str


class Larger(Wheel):
    """A file with more."""

    size: int
    """Bytes of a larger one."""


class Index(Strict):
    """All of them."""

    wheels: tuple[Wheel, ...]
    """The newest first."""
    larger: dict[str, Larger | None]


def test_fields_have_their_docstrings_also_those_of_models_in_models() -> None:
    for mode in ("validation", "serialization"):
        schema = described_schema(Index, mode)
        assert schema["properties"]["wheels"]["description"] == "The newest first."
        assert "description" not in schema["properties"]["larger"]
        wheel, larger = schema["$defs"]["Wheel"], schema["$defs"]["Larger"]
        assert wheel["properties"]["size"]["description"] == "Bytes, after\nit was packed."
        assert "description" not in wheel["properties"]["name"]
        assert larger["properties"]["size"]["description"] == "Bytes of a larger one."
        assert wheel["description"] == "A file."


def test_two_models_of_one_name_keep_their_own() -> None:
    class Wheel(Strict):
        size: int
        """Another size."""

    class Both(Strict):
        one: Index
        two: Wheel

    Both.model_rebuild(_types_namespace={"Index": Index, "Wheel": Wheel})
    sizes = {
        part["properties"]["size"].get("description")
        for name, part in described_schema(Both)["$defs"].items()
        if name.endswith("Wheel")
    }
    assert sizes == {"Bytes, after\nit was packed.", "Another size."}
