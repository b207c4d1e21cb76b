"""The Python environments of a build: uv venvs with locked tools and the torch that the source pins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from uv import find_uv_bin

from cpuwheels.config.downloads import TOOLS
from cpuwheels.core.digests import file_digest, make_key
from cpuwheels.core.errors import BuildEnvironmentError, CommandError, TorchError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.sealed_entry import mark_used
from cpuwheels.core.usage import current_usage
from cpuwheels.environment.bytecode import compile_imported
from cpuwheels.environment.sealed_env import is_sealed, read_environment, seal, seal_foreign
from cpuwheels.environment.torch_index import torch_requirement
from cpuwheels.environment.torch_install import install_torch, refuse_unpinned
from cpuwheels.fetch.locked_wheels import wheel_sizes, wheels_place
from cpuwheels.fetch.uv import found_interpreters, install_counted, run_uv, site_packages, uv_environment

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target
    from cpuwheels.config.pins import TorchPin
    from cpuwheels.core.store import Store
    from cpuwheels.environment.foreign_torch import ForeignTorch
    from cpuwheels.environment.sealed_env import Environment

TOOLS_LOCK = "build-tools.txt"
"""The lock of the build tools, in ``locks/``."""

_IMPORTED = (
    "torch",
    "setuptools.build_meta",
    "setuptools.command.build_py",
    "setuptools_scm",
    "scikit_build_core.build",
)
"""What every build and every check imports; compiling it to bytecode each time took longer than the rest."""


@dataclass(frozen=True)
class EnvironmentRequest:
    """What a build environment is made from.

    Attributes:
        torch: Version that the source pins, without a local label.
        pin: Where CPU builds of it are.
        target: The platform.
        pythons: Build interpreters in order of preference.
        lock: Requirements file with the tools' versions and hashes.
        locked: Whether a torch wheel whose bytes are not pinned is refused.
        foreign: The target's torch, if the environment cannot import it.
    """

    torch: str
    pin: TorchPin
    target: Target
    pythons: tuple[str, ...]
    lock: Path
    locked: bool = False
    foreign: ForeignTorch | None = None

    def torch_digests(self, python: str) -> list[str]:
        """Return the sha256 digests that a torch wheel for one Python version may have; none if not pinned."""
        tag = f"cp{python.replace('.', '')}"
        return [wheel.sha256 for wheel in self.pin.wheels_for(self.target.machine) if wheel.python == tag]

    def key(self, python: str) -> str:
        """Return the environment's key for one Python version."""
        return make_key(
            layout=4,
            torch=self.torch,
            pin=self.pin,
            machine=self.target.machine,
            python=python,
            lock=file_digest(self.lock),
            foreign=self.foreign and [self.foreign.version, self.foreign.digest, str(self.foreign.folder)],
        )


def build_environment(context: BuildContext, request: EnvironmentRequest) -> Environment:
    """Return the environment, making it if it is not there.

    The interpreter is the first of the request's for which both Python and a CPU torch can be found.

    Raises:
        BuildEnvironmentError: No interpreter, or the locked tools cannot be installed.
        TorchError: No place offers a CPU build of the pinned version for any of the interpreters.
        LockedError: ``locked`` and the only builds offered are not pinned by content.
    """
    if not request.lock.is_file():
        raise BuildEnvironmentError(
            f"the lock of the build tools is missing: {request.lock.name}",
            where=request.lock,
            next_step="restore it from git or run nox -s lock",
        )
    store = context.store
    if stored := stored_environment(request, store):
        return _allowed(stored, request)
    must_be_pinned = request.locked and request.foreign is None
    if must_be_pinned and not any(request.torch_digests(version) for version in request.pythons):
        raise refuse_unpinned(request.torch, request.pin, request.target, request.pythons[0])
    interpreters = found_interpreters(request.pythons)
    if not interpreters:
        raise BuildEnvironmentError(
            f"none of Python {', '.join(request.pythons)} is installed",
            where="PATH and uv's Pythons",
            next_step=f"install Python {request.pythons[0]}, for example: uv python install {request.pythons[0]}",
        )
    if must_be_pinned:
        pinned = {version: found for version, found in interpreters.items() if request.torch_digests(version)}
        if not pinned:
            raise refuse_unpinned(request.torch, request.pin, request.target, next(iter(interpreters)))
        interpreters = pinned
    faults: list[str] = []
    for version, interpreter in interpreters.items():
        with store.lock("environments", request.key(version)):
            folder = store.path("environments", request.key(version))
            if is_sealed(folder):
                mark_used(folder)
                return _allowed(read_environment(folder), request)
            made, refused = _make(context, request, version, interpreter, folder)
            if made is not None:
                return made
            faults += refused
    raise no_torch(request, interpreters, faults)


def no_torch(request: EnvironmentRequest, pythons: Iterable[str], faults: Iterable[str]) -> TorchError:
    """Return the error for a torch that no place has.

    Args:
        request: What is wanted.
        pythons: Versions of the interpreters that it was looked for.
        faults: Each place, and why it was refused.
    """
    return TorchError(
        f"no CPU build of torch {request.torch} can be found for {request.target.machine}",
        where=f"Python {', '.join(pythons)}",
        output="\n".join(dict.fromkeys(faults)),
        next_step=f"make {request.pin.index} reachable, or put torch-{request.torch}+{request.pin.local} for one "
        "of these Pythons into a folder and name it in UV_FIND_LINKS or PIP_FIND_LINKS",
    )


def _allowed(environment: Environment, request: EnvironmentRequest) -> Environment:
    if request.locked and not environment.torch_pinned:
        raise refuse_unpinned(request.torch, request.pin, request.target, environment.python_version)
    return environment


def _make(
    context: BuildContext, request: EnvironmentRequest, version: str, interpreter: Path, folder: Path
) -> tuple[Environment | None, list[str]]:
    reporter, log = context.reporter, context.logs / "environment.log"
    with storage_errors(folder.parent):
        remove_tree(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
    environment = None
    try:
        reporter.info(f"making a Python {version} environment with the locked build tools")
        run_uv(["venv", "--quiet", "--python", interpreter, folder], log)
        python = folder / "bin" / "python"
        files = request.lock.with_name(TOOLS)
        with wheels_place(files, version, store=context.store, reporter=reporter) as place:
            install_counted(
                [find_uv_bin(), "pip", "install", "--python", python, *place, "--require-hashes", "-r", request.lock],
                env=uv_environment(),
                log=log,
                sizes=wheel_sizes(files, version),
            )
        if request.foreign is not None:
            # Only here: it brings what unpacks Debian's compiler, which takes as long to import as all the rest.
            from cpuwheels.environment.torch_cross import install_stub  # noqa: PLC0415

            install_stub(site_packages(folder), request.foreign)
            compile_imported(python, _IMPORTED, log)
            environment = seal_foreign(folder, python, version, request.foreign)
            current_usage().made(folder)
            return environment, []
        offer, faults = install_torch(
            torch_requirement(request.torch, request.pin, request.target),
            request.pin,
            python=python,
            digests=request.torch_digests(version),
            store=context.store,
            reporter=reporter,
            log=log,
        )
        if offer is not None:
            compile_imported(python, _IMPORTED, log)
            environment = seal(folder, python, version, offer, pinned=bool(request.torch_digests(version)))
            current_usage().made(folder)
    except CommandError as error:
        raise BuildEnvironmentError(
            "the build environment could not be made",
            where=error.where,
            log=error.log,
            output=error.output,
            next_step="check the network and that the package index is reachable (UV_DEFAULT_INDEX names another)",
        ) from error
    finally:
        if environment is None:
            remove_tree(folder)
    return environment, faults


def stored_environment(request: EnvironmentRequest, store: Store) -> Environment | None:
    """Return the environment of a request if the store has it, whichever of its Pythons it is for."""
    folders = (store.path("environments", request.key(version)) for version in request.pythons)
    return next((read_environment(folder) for folder in folders if is_sealed(folder)), None)
