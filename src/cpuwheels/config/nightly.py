"""The part of ``matrix.yaml`` that a nightly job reads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cpuwheels.core.models import Strict
from cpuwheels.core.units import ByteSize


class Nightly(Strict):
    """What a nightly job builds, how it tries it, and how long it is kept."""

    branch: str = "main"
    """Whose newest commit is built."""
    parity: Literal["smoke", "full", "deep"] = "full"
    """How many cases of each operator are tried before a wheel is published."""
    speed_rounds: int = Field(default=9, ge=0)
    """How often the kernels are timed against those of the wheel before, if they are others; 0 for never."""
    attempts: int = Field(default=3, ge=1)
    """How often a wheel is tried that fails for a passing reason, such as the network."""
    keep_days: int = Field(default=60, ge=1)
    """Days for which a commit's wheels are kept; releases, and the newest of each target, are kept for ever."""
    keep_free: ByteSize = Field(default=10 << 30)
    """Bytes that have to be free on the disk for a build to be begun."""
