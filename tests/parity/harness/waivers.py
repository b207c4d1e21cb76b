"""Operators that are not tried, and why: ``waivers.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

PLACE = Path(__file__).parent.parent / "waivers.toml"


class WaiversError(Exception):
    """waivers.toml has an entry without a reason or without what would be needed."""


@cache
def waivers() -> dict[str, str]:
    """Return the reason for each operator that has no case."""
    with PLACE.open("rb") as stream:
        entries = tomllib.load(stream)
    for name, entry in entries.items():
        if set(entry) != {"reason", "needed"} or not all(text.strip() for text in entry.values()):
            raise WaiversError(f"waivers.toml: {name} needs a reason, and what would be needed")
    return {name: f"{entry['reason']} Needed: {entry['needed']}" for name, entry in entries.items()}
