"""Which symbol versions the linker may see under a platform policy. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.config.platform_policy import version_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.config.platform_policy import Policy


@dataclass(frozen=True)
class Definition:
    """A symbol as a library defines it in one version.

    Attributes:
        name: The symbol.
        node: Its version node.
        hidden: Whether only programs linked long ago use this version.
    """

    name: str
    node: str
    hidden: bool


def lowered(definitions: Sequence[Definition], policy: Policy) -> list[bool]:
    """Return which of a library's definitions the linker must not see under a policy.

    A symbol whose current version is not allowed gets its newest allowed version instead, as a library of
    that age would have it (``pow@GLIBC_2.2.5`` for ``pow@GLIBC_2.29``), or is not there at all.

    Returns:
        For each definition whether it is hidden.
    """
    hidden = [definition.hidden for definition in definitions]
    by_name: dict[str, list[int]] = {}
    for number, definition in enumerate(definitions):
        by_name.setdefault(definition.name, []).append(number)
    for number, definition in enumerate(definitions):
        if definition.hidden or not policy.forbids(definition.node):
            continue
        hidden[number] = True
        older = [other for other in by_name[definition.name] if not policy.forbids(definitions[other].node)]
        if older:
            hidden[max(older, key=lambda other: version_number(definitions[other].node))] = False
    return hidden
