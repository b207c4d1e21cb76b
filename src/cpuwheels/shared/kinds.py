"""What is shared of the stores: the kinds, and what of them differs from build to build."""

from __future__ import annotations

from types import MappingProxyType

from cpuwheels.audit.cache import KIND as AUDITED
from cpuwheels.kernels.depfile import KIND as READS
from cpuwheels.kernels.memory.ledger import LEDGER
from cpuwheels.kernels.memory.plan import MEASURED
from cpuwheels.kernels.memory.plan import SHARED as TABLES
from cpuwheels.kernels.result import MEMORY

KERNELS = "kernels"

SEALED = MappingProxyType(
    {
        KERNELS: frozenset({LEDGER, MEMORY}),
        AUDITED: frozenset[str](),
        "onednn": frozenset[str](),
        "acl": frozenset[str](),
    }
)
"""Kinds of entries that stay as they were made. Of each the files that tell how a build went: all others are the same
in every build with that key."""

GROWING = frozenset({READS, MEASURED})
"""Kinds to which every build may add something: lists of what compilers read, by which kernels are found, and tables of
what each file took to compile."""

__all__ = ["AUDITED", "GROWING", "KERNELS", "MEASURED", "READS", "SEALED", "TABLES"]
