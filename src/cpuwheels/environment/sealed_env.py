"""A build environment that is complete, and the note in its folder that says what it is."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpuwheels.core.digests import make_key
from cpuwheels.core.errors import BuildEnvironmentError
from cpuwheels.core.filesystem import storage_errors, write_atomic
from cpuwheels.core.models import parse_as
from cpuwheels.core.plain_file import read_plain
from cpuwheels.environment.torch_index import TorchOffer
from cpuwheels.environment.torch_install import torch_digest
from cpuwheels.fetch.uv import site_packages

if TYPE_CHECKING:
    from cpuwheels.environment.debian_root import DebianRoot
    from cpuwheels.environment.foreign_torch import ForeignTorch

_MARKER, _LONGEST = "cpuwheels-environment.json", 1 << 20


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
    def places(self) -> list[Path]:
        """Folders outside the venv that its programs read: the Debian root, if there is one."""
        return [self.debian.folder] if self.debian else []

    def runs(self, python: Path) -> list[str | Path]:
        """Return the command of a venv's interpreter that can import the target's torch."""
        return self.debian.command(python) if self.debian else [python]

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
        found = _marked(self.python.parent.parent)["offer"]
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


def seal(folder: Path, python: Path, version: str, offer: TorchOffer, *, pinned: bool) -> Environment:
    """Note in a folder that its environment is complete, and return it.

    Args:
        folder: The venv, with torch and the tools.
        python: Its interpreter.
        version: Of Python, such as ``3.11``.
        offer: Where torch was found.
        pinned: Whether its wheel is pinned by content.
    """
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


def seal_foreign(folder: Path, python: Path, version: str, torch: ForeignTorch) -> Environment:
    """Note in a folder that its environment is complete, and return it; its torch is one that it cannot import.

    Args:
        folder: The venv, with the tools.
        python: Its interpreter.
        version: Of Python, such as ``3.11``.
        torch: The target's torch.
    """
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
        os.sync()  # a marker is not to outlive in a power cut what it vouches for; uv has written 30,000 files
        write_atomic(folder / _MARKER, json.dumps(record | {"offer": offer and asdict(offer)}, indent=1) + "\n")
    return environment


def read_environment(folder: Path) -> Environment:
    """Return the complete environment of a folder."""
    data = _marked(folder)
    data.pop("offer")
    return Environment(**data | {name: Path(data[name]) for name in ("python", "site_packages", "torch_folder")})


def is_sealed(folder: Path) -> bool:
    """Return whether a folder has a complete environment."""
    try:
        found = _marked(folder)
    except (OSError, ValueError):
        return False  # damaged: it is made again
    return found.keys() == {field.name for field in fields(Environment)} | {"offer"}


def _marked(folder: Path) -> dict[str, Any]:
    path = folder / _MARKER
    return parse_as(dict[str, Any], read_plain(path, _LONGEST), path)
