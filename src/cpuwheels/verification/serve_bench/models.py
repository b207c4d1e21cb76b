"""The models that are made on the spot to be timed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.errors import CommandError, ServeError
from cpuwheels.core.process import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.verification.serve_bench.load import Load

MADE = ("qwen3-tiny", "qwen3-100m")
"""The models that resources/bench_models.py makes: of 4.6 and 103 million parameters."""

DRAFT = MADE[0]
"""Proposes tokens to the others, as it has the same vocabulary."""

RESOURCES = Path(__file__).with_name("resources")
"""Folder of the script."""

_SCRIPT = RESOURCES / "bench_models.py"


def make_bench_models(load: Load, names: Sequence[str]) -> dict[str, Path]:
    """Make models, and return their folders by name.

    Args:
        load: Whose environment makes them, in its working folder.
        names: Of `MADE`.

    Raises:
        ServeError: They cannot be made.
    """
    folder = load.work / "models"
    if names:
        try:
            confined = load.confine([load.python, "-P", _SCRIPT, folder, *names], load.env)
            run(confined.argv, log=load.log, env=confined.env)
        except CommandError as error:
            raise ServeError(
                f"the models {', '.join(names)} cannot be made",
                where=_SCRIPT,
                log=error.log,
                output=error.output,
                next_step="read the log",
            ) from error
    return {name: folder / name for name in names}
