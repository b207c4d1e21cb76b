"""The Python environments of a build: uv venvs with locked tools and the torch that the source pins."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.digests import file_digest, make_key
from cpuwheels.core.errors import BuildEnvironmentError, CommandError, TorchError
from cpuwheels.core.filesystem import remove_tree, storage_errors, write_atomic
from cpuwheels.environment.bytecode import compile_imported
from cpuwheels.environment.torch_index import TorchOffer, torch_requirement
from cpuwheels.environment.torch_install import install_torch, refuse_unpinned, torch_digest
from cpuwheels.fetch.uv import found_interpreters, run_uv, site_packages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target
    from cpuwheels.config.pins import TorchPin
    from cpuwheels.core.store import Store
    from cpuwheels.environment.debian_root import DebianRoot
    from cpuwheels.environment.torch_debian import ForeignTorch

TOOLS_LOCK = "build-tools.txt"
"""The lock of the build tools, in ``locks/``."""

_MARKER = "cpuwheels-environment.json"

_IMPORTED = (
    "torch",
    "setuptools.build_meta",
    "setuptools.command.build_py",
    "setuptools_scm",
    "scikit_build_core.build",
)
"""What every build and every check imports; compiling it to bytecode each time took longer than the rest."""


@dataclass(frozen=True)
class Environment:
    """A venv with torch and the build tools.

    Attributes:
        python: Its interpreter.
        python_version: Such as ``3.11``.
        site_packages: Where its packages are.
        torch_version: With its local label, such as ``2.13.0+cpu``.
        torch_digest: Digest of torch's headers and libraries; the same for every Python version that torch
            was packed for with the same headers and libraries.
        torch_from: For people: where it came from.
        torch_pinned: Whether its wheel is pinned by content.
        torch_alternate: Whether it replaces a wheel that could not be fetched.
        torch_folder: The target's torch, laid out as the installed package: ``include/``, ``lib/``. It is this
            environment's own where that is the target's, too.
        tools: Installed packages and their versions.
        debian: The Debian root with that torch, where programs that need torch run in it.
    """

    python: Path
    python_version: str
    site_packages: Path
    torch_version: str
    torch_digest: str
    torch_from: str
    torch_pinned: bool
    torch_alternate: bool
    torch_folder: Path
    tools: dict[str, str]
    debian: DebianRoot | None = None

    @property
    def foreign(self) -> bool:
        """Whether the environment cannot import the target's torch, so that another package answers in its place."""
        return self.torch_folder.parent != self.site_packages

    @property
    def runs_python(self) -> str:
        """Version of the Python that programs with the target's torch run on."""
        return self.debian.python_version if self.debian else self.python_version

    @property
    def runs_torch(self) -> str:
        """Version of the torch that they have."""
        return self.debian.torch_version if self.debian else self.torch_version

    @property
    def scripts(self) -> Path:
        """Folder of its commands (cmake, ninja, python)."""
        return self.python.parent

    def offer(self) -> TorchOffer:
        """Return the place of wheels where its torch was found.

        Raises:
            BuildEnvironmentError: Its torch is Debian's, or not from a place that was noted.
        """
        found = json.loads((self.python.parent.parent / _MARKER).read_text())["offer"]
        if found is None:
            raise BuildEnvironmentError(
                f"no place with wheels of its torch could be reached; the build's is {self.torch_from}",
                where="torch",
                next_step="make PyTorch's index reachable, or name a folder with the wheel in PIP_FIND_LINKS",
            )
        return TorchOffer(**found)

    def key(self) -> str:
        """Return a digest of everything that a program run in it can read there."""
        return make_key(
            python=[self.python_version, str(self.python.resolve())],
            torch=[self.torch_version, self.torch_digest],
            tools=self.tools,
        )


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
        wanted = (f"cp{python.replace('.', '')}", self.target.machine)
        return [wheel.sha256 for wheel in self.pin.wheels if (wheel.python, wheel.machine) == wanted]

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
    interpreters = found_interpreters(request.pythons)
    if not interpreters:
        raise BuildEnvironmentError(
            f"none of Python {', '.join(request.pythons)} is installed",
            where="PATH and uv's Pythons",
            next_step=f"install Python {request.pythons[0]}, for example: uv python install {request.pythons[0]}",
        )
    faults: list[str] = []
    for version, interpreter in interpreters.items():
        with store.lock("environments", request.key(version)):
            folder = store.path("environments", request.key(version))
            if (folder / _MARKER).is_file():
                return _allowed(_read(folder), request)
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
        raise refuse_unpinned(f"torch {environment.torch_version}")
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
        run_uv(["pip", "install", "--python", python, "--require-hashes", "-r", request.lock], log)
        if request.foreign is not None:
            # Only here: it brings what unpacks Debian's compiler, which takes as long to import as all the rest.
            from cpuwheels.environment.torch_cross import install_stub  # noqa: PLC0415

            install_stub(site_packages(folder), request.foreign)
            compile_imported(python, _IMPORTED, log)
            environment = _seal_foreign(folder, python, version, request.foreign)
            return environment, []
        offer, faults = install_torch(
            torch_requirement(request.torch, request.pin, request.target),
            request.pin,
            python=python,
            digests=request.torch_digests(version),
            locked=request.locked,
            reporter=reporter,
            log=log,
        )
        if offer is not None:
            compile_imported(python, _IMPORTED, log)
            environment = _seal(folder, python, version, offer, pinned=bool(request.torch_digests(version)))
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


def _seal(folder: Path, python: Path, version: str, offer: TorchOffer, *, pinned: bool) -> Environment:
    site = site_packages(folder)
    tools = _installed(site)
    environment = Environment(
        python=python,
        python_version=version,
        site_packages=site,
        torch_version=tools["torch"],
        torch_digest=torch_digest(site),
        torch_from=f"{offer.location} (named by {offer.named_by})",
        torch_pinned=pinned,
        torch_alternate=False,
        torch_folder=site / "torch",
        tools=tools,
    )
    return _sealed(folder, environment, offer)


def _seal_foreign(folder: Path, python: Path, version: str, torch: ForeignTorch) -> Environment:
    site = site_packages(folder)
    environment = Environment(
        python=python,
        python_version=version,
        site_packages=site,
        torch_version=torch.version,
        torch_digest=torch.digest,
        torch_from=torch.origin,
        torch_pinned=torch.pinned,
        torch_alternate=torch.alternate,
        torch_folder=torch.folder,
        tools=_installed(site),
    )
    return _sealed(folder, environment, torch.offer)


def _installed(site: Path) -> dict[str, str]:
    return dict(path.name.removesuffix(".dist-info").split("-") for path in sorted(site.glob("*.dist-info")))


def _sealed(folder: Path, environment: Environment, offer: TorchOffer | None) -> Environment:
    """Note in the environment's folder that it is complete, and what it is."""
    record = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(environment).items()}
    with storage_errors(folder):
        write_atomic(folder / _MARKER, json.dumps(record | {"offer": offer and asdict(offer)}, indent=1) + "\n")
    return environment


def stored_environment(request: EnvironmentRequest, store: Store) -> Environment | None:
    """Return the environment of a request if the store has it, whichever of its Pythons it is for."""
    folders = (store.path("environments", request.key(version)) for version in request.pythons)
    return next((_read(folder) for folder in folders if (folder / _MARKER).is_file()), None)


def _read(folder: Path) -> Environment:
    data = json.loads((folder / _MARKER).read_text())
    data.pop("offer")
    return Environment(**data | {name: Path(data[name]) for name in ("python", "site_packages", "torch_folder")})
