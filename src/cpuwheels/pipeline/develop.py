"""An editable installation of a checkout, with kernels that fit it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from cpuwheels.config.host import check_own_machine, markers
from cpuwheels.core.errors import UsageError
from cpuwheels.environment.test_env import install_with_torch, new_environment
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.fetch.git import Git
from cpuwheels.pipeline import build
from cpuwheels.pipeline.context import open_context
from cpuwheels.source.worktree import check_tree
from cpuwheels.wheel.editable import editable_wheel
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix
    from cpuwheels.config.options import BuildOptions
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter

VENV = ".venv"
"""Environment in the checkout that is made if none is named."""


def develop(
    paths: Paths,
    matrix: Matrix,
    name: str,
    checkout: Path,
    options: BuildOptions,
    reporter: Reporter,
    *,
    python: Path | None = None,
    requirements: bool = True,
) -> Path:
    """Install a checkout so that its Python files are used in place, with kernels from the store or a build.

    Nothing is written into the checkout but the environment ``.venv``, if none is named. Run it again after a change to
    kernels; changes to Python files need nothing.

    Args:
        paths: Folders to read and write.
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
        UsageError: The interpreter is not there, or the checkout's commits bring an environment along.
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
    if python is None:
        _check_own(folder)
    apart = replace(paths, dist=paths.dist / "develop")
    built = build.build(apart, matrix, name, replace(options, source=str(folder)), reporter, check=False)
    context = open_context(apart, matrix, target, options, reporter)
    found = read_wheel(built.path, target, markers(target, matrix.python[0]))
    environment = torch_environment(context, found.torch)
    with context.store.scratch("editable") as work, reporter.stage("install", f"{folder}, editable"):
        wheel = work / built.path.name
        editable_wheel(built.path, folder, wheel)
        own = folder / VENV / "bin" / "python"
        if python is None and not own.exists():
            reporter.info(f"making the environment {own.parent.parent}")
            new_environment(environment, own.parent.parent, context.logs)
        used = python or own
        install_with_torch(environment, wheel, used, context.logs, requirements=requirements)
    return used


def _check_own(checkout: Path) -> None:
    """Refuse an environment that is part of the checkout's commits: the installer would run its interpreter.

    Raises:
        UsageError: It is.
    """
    listed = Git(checkout).ask("ls-files", "--", VENV)
    if listed.returncode == 0 and listed.output.strip():
        raise UsageError(
            f"the checkout's commits have a {VENV} in them, whose programs would be run",
            where=checkout / VENV,
            next_step="name an environment of your own with --python, or remove it from the commits",
        )
