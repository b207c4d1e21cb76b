"""The model of ``rebuilders.yaml``: whose statements about an index's wheels count, by their keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from cpuwheels.core.models import Strict

MOST = 64
"""Rebuilders of an index."""

RebuilderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$", max_length=64)]
SiteUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s@\"<>?#]+$", max_length=1024)]


class Rebuilder(Strict):
    """Somebody who builds an index's wheels again, and publishes what comes of it."""

    name: RebuilderName
    """As pages and messages name it."""
    url: SiteUrl
    """Where its `rebuilds.json` is, without that name."""
    keys: tuple[Annotated[str, StringConstraints(max_length=16_384)], ...] = Field(min_length=1, max_length=8)
    """Its public keys (PEM). What is signed with another key does not count, wherever it is found."""


class Rebuilders(Strict):
    """The rebuilders that an index's keeper, or its user, relies on."""

    rebuilders: tuple[Rebuilder, ...] = Field(max_length=MOST)

    @model_validator(mode="after")
    def _each_once(self) -> Rebuilders:
        names = [one.name for one in self.rebuilders]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two rebuilders are called {twice[0]}")
        return self
