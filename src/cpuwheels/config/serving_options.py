"""The options of commands that serve models, as the command line gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cpuwheels.config.options import FEWEST_ROUNDS, LEAST_RATIO

if TYPE_CHECKING:
    from pathlib import Path

ServeLevel = Literal["smoke", "full"]
ServeMode = Literal["eager", "compile"]
Speculation = Literal["none", "ngram", "draft"]


@dataclass(frozen=True)
class ServeOptions:
    """What the user may choose for serving a wheel.

    Attributes:
        wheel: The wheel; the target's newest when None.
        level: How much is served where the following do not say it.
        models: Small models that are made on the spot, or folders of models.
        dtypes: Data types that each model is served in.
        modes: ``eager``, or ``compile`` for torch.compile.
        libraries: Kernel libraries that vLLM is made to take; its own choice if empty, at level ``smoke``.
        out: Folder of ``serve.json``; next to the wheel when None.
        locked: Refuse requirements that are not locked.
        relock: Resolve the requirements anew and write the project's lock.
    """

    wheel: Path | None = None
    level: ServeLevel = "smoke"
    models: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    modes: tuple[ServeMode, ...] = ()
    libraries: tuple[str, ...] = ()
    out: Path | None = None
    locked: bool = False
    relock: bool = False


@dataclass(frozen=True)
class ServeBenchOptions:
    """What the user may choose for a comparison of two servers.

    Attributes:
        against: The other wheel: a file, or a requirement that the package index meets.
        wheel: The wheel, likewise; the target's newest when None.
        models: Models that are made on the spot, or folders of models.
        speculations: What proposes tokens; each model is served with each.
        dtype: Data type of the models.
        at_once: Requests under way at once; each server gets all of these loads.
        rounds: How often both sides are started and loaded.
        env: Variables of both sides.
        wheel_env: Variables of the wheel's side.
        against_env: Variables of the other side.
        wheel_preload: Libraries preloaded on the wheel's side: paths, or names of files.
        against_preload: The same of the other side.
        least: Smallest ratio that is not a failure.
        out: Folder of ``serve-bench.json``; next to the wheel when None.
    """

    against: str
    wheel: str | None = None
    models: tuple[str, ...] = ("qwen3-tiny", "qwen3-100m")
    speculations: tuple[Speculation, ...] = ("none",)
    dtype: str = "bfloat16"
    at_once: tuple[int, ...] = (1, 16)
    rounds: int = FEWEST_ROUNDS
    env: tuple[str, ...] = ()
    wheel_env: tuple[str, ...] = ()
    against_env: tuple[str, ...] = ()
    wheel_preload: tuple[str, ...] = ()
    against_preload: tuple[str, ...] = ()
    least: float = LEAST_RATIO
    out: Path | None = None
