"""The part of ``matrix.yaml`` that a nightly job reads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cpuwheels.core.models import Strict
from cpuwheels.core.units import ByteSize


class Nightly(Strict):
    """What a nightly job builds, how it tests it, and how long it is kept."""

    branch: str = "main"
    """Branch whose newest commit is built."""
    parity: Literal["smoke", "full", "deep"] = "full"
    """How many cases of each operator are tested before a wheel is published."""
    serve: tuple[str, ...] = ("qwen3",)
    """Models that a server with the wheel has to answer from before it is published; none if it is not served."""
    verify: tuple[str, ...] = ()
    """What is different when the wheel of one target is built a second time each night (docs/reproducibility.md); none
    if no wheel is."""
    speed_rounds: int = Field(default=9, ge=0)
    """How often the kernels are timed against the previous wheel's, if they differ; 0 for never."""
    attempts: int = Field(default=3, ge=1)
    """How often a wheel is tested at most if the reason for its failure may pass, such as the network."""
    keep_days: int = Field(default=60, ge=1)
    """Days for which a commit's wheels are kept; releases, and the newest of each target, are kept for ever."""
    keep_free: ByteSize = Field(default=10 << 30)
    """Bytes that must be free on the disk before a build starts."""
