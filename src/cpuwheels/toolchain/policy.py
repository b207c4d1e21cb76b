"""Which versions of the system's symbols a platform policy allows, from auditwheel's own table. Pure."""

from __future__ import annotations

import importlib.resources
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Policy:
    """What a wheel of a platform tag may need from the system.

    Attributes:
        name: Such as ``manylinux_2_28``.
        versions: Family (``GLIBC``, ``GLIBCXX``, …) → its allowed versions.
    """

    name: str
    versions: Mapping[str, frozenset[str]]

    def forbids(self, node: str) -> bool:
        """Return whether a version node such as ``GLIBC_2.29`` is of a known family and not allowed."""
        family, _, version = node.partition("_")
        return family in self.versions and version not in self.versions[family]

    @property
    def glibc(self) -> tuple[int, int]:
        """The newest C library that is allowed, such as (2, 28)."""
        numbers = [number for text in self.versions["GLIBC"] if len(number := _number(text)) > 1]
        major, minor, *_ = max(numbers)
        return major, minor


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


def read_policy(policies: str, floor: str, machine: str) -> Policy:
    """Return a policy for a machine.

    Args:
        policies: Text of auditwheel's ``manylinux-policy.json``.
        floor: A policy or one of its aliases, such as ``manylinux_2_28``.
        machine: As in the policy, such as ``x86_64``.

    Raises:
        ToolchainError: There is no such policy for that machine.
    """
    for policy in json.loads(policies):
        if floor in (policy["name"], *policy.get("aliases", ())):
            versions = policy["symbol_versions"].get(machine)
            if versions is not None:
                allowed = {family: frozenset(found) for family, found in versions.items()}
                return Policy(policy["name"], allowed)
    raise ToolchainError(
        f"auditwheel knows no policy {floor} for {machine}",
        where="matrix.yaml: the target's floor",
        next_step="name a policy of auditwheel, such as manylinux_2_28, or update auditwheel",
    )


def policy_text() -> str:
    """Return auditwheel's own table of Linux platform policies."""
    return importlib.resources.files("auditwheel.policy").joinpath("manylinux-policy.json").read_text("utf-8")


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
            hidden[max(older, key=lambda other: _number(definitions[other].node))] = False
    return hidden


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
