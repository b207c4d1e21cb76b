"""The command line of a bisection whose wheels cost nothing.

    python asked_bisection.py ARGUMENT...

What is made in advance takes five minutes if the working folder has a file `LONG`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.bisect import probe, wheels
from cpuwheels.bisect.background_build import LOG
from cpuwheels.bisect.predicates import Installed
from cpuwheels.cli.main import main
from cpuwheels.core.process import run
from cpuwheels.pipeline import build
from fake_builds import Builds

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths


LONG = "long"


def take_long(paths: Paths, _target: str, _options: BuildOptions) -> None:
    """Stand for a compilation."""
    run(["sleep", "300" if Path(LONG).exists() else "0"], log=paths.dist / LOG)


def installer(*_: object) -> Callable[[Path, Path, object], Installed]:
    """Stand for what makes environments."""

    def install(_wheel: Path, folder: Path, _reporter: object) -> Installed:
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        return Installed(folder / "bin" / "python", {})

    return install


if __name__ == "__main__":
    build.build = Builds()  # type: ignore[assignment]
    wheels.build_in_background = take_long
    probe._installer = installer  # type: ignore[assignment]
    main(sys.argv[1:])
