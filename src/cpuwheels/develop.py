"""A checkout installed editable, with kernels that fit it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels import pipeline, run
from cpuwheels.errors import UsageError
from cpuwheels.parity.wheel import read_wheel
from cpuwheels.platforms import check_own_machine, markers
from cpuwheels.runtime import install_with_torch, new_environment
from cpuwheels.source.tree import check_tree
from cpuwheels.wheel.editable import editable_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config import Places
    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import Matrix
    from cpuwheels.options import BuildOptions

VENV = ".venv"
"""Environment in the checkout that is made if none is named."""


def develop(
    places: Places,
    matrix: Matrix,
    name: str,
    checkout: Path,
    options: BuildOptions,
    reporter: Reporter,
    *,
    python: Path | None = None,
    requirements: bool = True,
) -> Path:
    """Install a checkout so that its Python files are used where they are, with kernels from the store or a build.

    Nothing is written into the checkout but the environment ``.venv``, if none is named. Run it again after a change to
    kernels; changes to Python files need nothing.

    Args:
        places: Folders to read and write.
        matrix: The configuration.
        name: Target id.
        checkout: The vLLM checkout.
        options: How kernels are built.
        reporter: Told of every step.
        python: Interpreter of the environment to install into; the checkout's own ``.venv`` if not given.
        requirements: Whether everything else that vLLM requires is installed, too.

    Returns:
        The environment's interpreter.

    Raises:
        UsageError: The interpreter is not there.
        CpuwheelsError: Any stage's own error.
    """
    target = matrix.buildable(name)
    check_own_machine(target)
    folder = checkout.expanduser().resolve()
    check_tree(folder)
    if python is not None and shutil.which(python) is None:
        raise UsageError(
            f"{python} is not an interpreter",
            where="--python",
            next_step="give the path of an environment's python, or leave it out for one in the checkout",
        )
    apart = replace(places, dist=places.dist / "develop")
    built = pipeline.build(apart, matrix, name, replace(options, source=str(folder)), reporter, check=False)
    this = run.start(apart, matrix, target, options, reporter)
    found = read_wheel(built.path, target, markers(target, matrix.python[0]))
    environment = this.environment(found.torch)
    with this.store.scratch("editable") as work, reporter.stage("install", f"{folder}, editable"):
        wheel = work / built.path.name
        editable_wheel(built.path, folder, wheel)
        own = folder / VENV / "bin" / "python"
        if python is None and not own.exists():
            reporter.info(f"making the environment {own.parent.parent}")
            new_environment(environment, own.parent.parent, this.logs)
        used = python or own
        install_with_torch(environment, wheel, used, this.logs, requirements=requirements)
    return used
