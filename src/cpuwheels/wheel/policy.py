"""Platform policies (PEP 600), read from the data that auditwheel decides by."""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpuwheels.errors import AuditError

if TYPE_CHECKING:
    from cpuwheels.wheel.elf import NeededVersion

_DATA = "manylinux-policy.json"
_LOADERS = ("ld-linux", "ld64.so.")


@dataclass(frozen=True)
class Policy:
    """What a wheel of one platform tag may take from the system.

    Attributes:
        name: Such as ``manylinux_2_28_x86_64``.
        priority: Higher means older, that is, stricter.
        versions: Prefix, such as ``GLIBC`` → numbers that may be needed.
        libraries: Sonames that every system of that policy has.
    """

    name: str
    priority: int
    versions: dict[str, frozenset[str]]
    libraries: frozenset[str]

    def allows(self, needed: NeededVersion) -> bool:
        """Return whether a symbol version may be needed.

        Prefixes that the policy does not limit (of bundled libraries, say) are allowed, as in auditwheel.
        """
        prefix, _, number = needed.version.rpartition("_")
        return prefix not in self.versions or number in self.versions[prefix]

    def has(self, soname: str) -> bool:
        """Return whether every system of the policy has a library; the loader is there by definition."""
        return soname in self.libraries or soname.startswith(_LOADERS)


def load_policy(floor: str, machine: str) -> Policy:
    """Return the policy of a platform such as ``manylinux_2_28`` on a machine such as ``x86_64``.

    Raises:
        AuditError: auditwheel knows no such policy for the machine.
    """
    text = importlib.resources.files("auditwheel.policy").joinpath(_DATA).read_text(encoding="utf-8")
    names = []
    for row in json.loads(text):
        if machine not in row["symbol_versions"]:
            continue
        names.append(row["name"])
        if floor in {row["name"], *row["aliases"]}:
            return Policy(
                name=f"{row['name']}_{machine}",
                priority=row["priority"],
                versions={key: frozenset(value) for key, value in row["symbol_versions"][machine].items()},
                libraries=frozenset(row["lib_whitelist"]),
            )
    raise AuditError(
        f"there is no platform policy {floor} for {machine}",
        where="the target's floor",
        next_step=f"known: {', '.join(names) or 'none for this machine'}",
    )
