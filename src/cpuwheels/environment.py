"""The Python environments of a build: uv venvs with locked tools and the torch that the source pins."""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uv

from cpuwheels.errors import CommandError, EnvironmentError_, LockedError, TorchError
from cpuwheels.keys import file_digest, make_key, text_digest
from cpuwheels.process import capture, closed_environment, run
from cpuwheels.storage import remove_tree, storage_errors, write_atomic
from cpuwheels.torch_source import (
    TorchOffer,
    cuda_of,
    offered_files,
    pip_configs,
    torch_offers,
    torch_requirement,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import Target, TorchPin
    from cpuwheels.store import Store

_MARKER = "cpuwheels-environment.json"


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
        tools: Installed packages and their versions.
    """

    python: Path
    python_version: str
    site_packages: Path
    torch_version: str
    torch_digest: str
    torch_from: str
    tools: dict[str, str]

    @property
    def scripts(self) -> Path:
        """Folder of its commands (cmake, ninja, python)."""
        return self.python.parent


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
    """

    torch: str
    pin: TorchPin
    target: Target
    pythons: tuple[str, ...]
    lock: Path
    locked: bool = False

    def key(self, python: str) -> str:
        """Return the environment's key for one Python version."""
        return make_key(
            torch=self.torch, pin=self.pin, machine=self.target.machine, python=python, lock=file_digest(self.lock)
        )


def build_environment(
    request: EnvironmentRequest, store: Store, reporter: Reporter, logs: Path
) -> Environment:
    """Return the environment, making it if it is not there.

    The interpreter is the first of the request's for which both Python and a CPU torch are to be had.

    Raises:
        EnvironmentError_: No interpreter, or the locked tools cannot be installed.
        TorchError: No place offers a CPU build of the pinned version for any of the interpreters.
        LockedError: ``locked`` and the only builds offered are not pinned by content.
    """
    if not request.lock.is_file():
        raise EnvironmentError_(
            f"the lock of the build tools is missing: {request.lock.name}",
            where=request.lock,
            next_step="restore it from git or run nox -s lock",
        )
    interpreters = [(version, found) for version in request.pythons if (found := _interpreter(version))]
    if not interpreters:
        raise EnvironmentError_(
            f"none of Python {', '.join(request.pythons)} is installed",
            where="PATH and uv's Pythons",
            next_step=f"install Python {request.pythons[0]}, for example: uv python install {request.pythons[0]}",
        )
    for version, _ in interpreters:
        folder = store.path("environments", request.key(version))
        if (folder / _MARKER).is_file():
            return _read(folder)
    faults: list[str] = []
    for version, interpreter in interpreters:
        with store.lock("environments", request.key(version)):
            folder = store.path("environments", request.key(version))
            if (folder / _MARKER).is_file():
                return _read(folder)
            made = _make(request, version, interpreter, folder, reporter, logs, faults)
            if made is not None:
                return made
    raise TorchError(
        f"no CPU build of torch {request.torch} is to be had for {request.target.machine}",
        where=f"Python {', '.join(version for version, _ in interpreters)}",
        output="\n".join(dict.fromkeys(faults)),
        next_step=f"make {request.pin.index} reachable, or put torch-{request.torch}+{request.pin.local} for one "
        "of these Pythons into a folder and name it in UV_FIND_LINKS or PIP_FIND_LINKS",
    )


def _make(
    request: EnvironmentRequest,
    version: str,
    interpreter: Path,
    folder: Path,
    reporter: Reporter,
    logs: Path,
    faults: list[str],
) -> Environment | None:
    with storage_errors(folder.parent):
        remove_tree(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
    log = logs / "environment.log"
    try:
        reporter.info(f"making a Python {version} environment with the locked build tools")
        _uv(["venv", "--quiet", "--python", interpreter, folder], log)
        python = folder / "bin" / "python"
        _uv(["pip", "install", "--python", python, "--require-hashes", "-r", request.lock], log)
        offer = _install_torch(request, version, python, reporter, log, faults)
        if offer is None:
            remove_tree(folder)
            return None
        site = next((folder / "lib").glob("python3*/site-packages"))
        environment = Environment(
            python=python,
            python_version=version,
            site_packages=site,
            torch_version=_installed(site, "torch"),
            torch_digest=torch_digest(site),
            torch_from=f"{offer.location} (named by {offer.named_by})",
            tools=_tools(site),
        )
        with storage_errors(folder):
            record = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(environment).items()}
            write_atomic(folder / _MARKER, json.dumps(record | {"offer": asdict(offer)}, indent=1) + "\n")
    except CommandError as error:
        remove_tree(folder)
        raise EnvironmentError_(
            "the build environment could not be made",
            where=error.where,
            log=error.log,
            output=error.output,
            next_step="check the network and that the package index is reachable (UV_DEFAULT_INDEX names another)",
        ) from error
    except BaseException:
        remove_tree(folder)
        raise
    return environment


def _install_torch(
    request: EnvironmentRequest, version: str, python: Path, reporter: Reporter, log: Path, faults: list[str]
) -> TorchOffer | None:
    wanted = torch_requirement(request.torch, request.pin, request.target)
    requirement, pinned = _with_hash(request, version, wanted, log)
    for offer in torch_offers(request.pin, os.environ, pip_configs(os.environ)):
        options = ["--python", python, "--only-binary", "torch", *offer.uv_options()]
        plan = run(
            [uv.find_uv_bin(), "pip", "install", "--dry-run", *options, wanted],
            log=log, env=_uv_environment(), check=False,
        )  # fmt: skip
        if fault := judge_plan(plan.returncode, plan.output, wanted):
            faults.append(f"{offer.location} ({offer.named_by}): {fault}{_listed(offer)}")
            continue
        if not pinned:
            if request.locked:
                raise LockedError(
                    f"{wanted} for Python {version} is not pinned by content",
                    where="matrix.yaml: torch",
                    next_step="add the wheel's sha256 there, or build without --locked",
                )
            reporter.announce(f"{wanted} for Python {version} is not pinned by content; taking it from {offer.location}")
        reporter.info(f"installing {wanted} from {offer.location} (named by {offer.named_by})")
        done = run(
            [uv.find_uv_bin(), "pip", "install", "--no-deps", *options, "-r", requirement],
            log=log, env=_uv_environment(), check=False,
        )  # fmt: skip
        if done.returncode != 0:
            faults.append(f"{offer.location} ({offer.named_by}): {_last_line(done.output)}")
            continue
        site = next((python.parent.parent / "lib").glob("python3*/site-packages"))
        if cuda := cuda_of(site / "torch"):
            raise TorchError(
                f"{offer.location} served a torch {request.torch} that is a CUDA {cuda} build",
                where=offer.named_by,
                next_step="remove it from there; only CPU builds may be used",
            )
        return offer
    return None


def judge_plan(returncode: int, output: str, wanted: str) -> str:
    """Return why an install plan (``uv pip install --dry-run``) is refused, or nothing if it is good.

    The environment already has everything that a CPU build of torch needs, so a plan with more than torch
    itself is not a CPU build: CUDA builds bring nvidia-* and triton.
    """
    if returncode != 0:
        return _last_line(output) or "no such version"
    planned = re.findall(r"^ \+ ([\w.-]+)==", output, re.MULTILINE)
    extra = sorted(set(planned) - {"torch"})
    if extra:
        return f"not a CPU build of {wanted}: it would bring {', '.join(extra[:4])}"
    return ""


def _with_hash(request: EnvironmentRequest, version: str, wanted: str, log: Path) -> tuple[Path, bool]:
    tag = "cp" + version.replace(".", "")
    digests = [
        wheel.sha256
        for wheel in request.pin.wheels
        if wheel.python == tag and wheel.machine == request.target.machine
    ]
    path = log.with_name("torch-requirement.txt")
    write_atomic(path, f"{wanted}{''.join(f' --hash=sha256:{digest}' for digest in digests)}\n")
    return path, bool(digests)


def runtime_environment(environment: Environment, folder: Path, lock: Path, logs: Path) -> Path:
    """Make a fresh venv with the same torch and nothing of the build but its locked packages.

    Returns:
        The venv's interpreter.

    Raises:
        EnvironmentError_: It could not be made.
    """
    log = logs / "runtime-environment.log"
    marker = json.loads((environment.python.parent.parent / _MARKER).read_text())
    offer = TorchOffer(**marker["offer"])
    with storage_errors(folder.parent):
        remove_tree(folder)
    try:
        _uv(["venv", "--quiet", "--python", environment.python.resolve(), folder], log)
        python = folder / "bin" / "python"
        _uv(["pip", "install", "--offline", "--python", python, "--require-hashes", "-r", lock], log)
        _uv(
            ["pip", "install", "--offline", "--no-deps", "--python", python, *offer.uv_options(),
             f"torch=={environment.torch_version}"],
            log,
        )  # fmt: skip
    except CommandError as error:
        raise EnvironmentError_(
            "the environment for the install check could not be made",
            where=error.where,
            log=error.log,
            output=error.output,
        ) from error
    return python


def torch_digest(site_packages: Path) -> str:
    """Return one digest of torch's headers and libraries, from the hashes in its RECORD."""
    record = next(site_packages.glob("torch-*.dist-info")) / "RECORD"
    with record.open(newline="", encoding="utf-8") as stream:
        rows = sorted(
            f"{row[0]} {row[1]}"
            for row in csv.reader(stream)
            if row[0].startswith(("torch/include/", "torch/lib/", "torch/share/cmake/"))
        )
    return text_digest("\n".join(rows))


def _interpreter(version: str) -> Path | None:
    found = capture([uv.find_uv_bin(), "python", "find", "--no-project", "--system", version], env=_uv_environment())
    return Path(found.output.strip()) if found.returncode == 0 else None


def _read(folder: Path) -> Environment:
    data = json.loads((folder / _MARKER).read_text())
    data.pop("offer")
    return Environment(**data | {name: Path(data[name]) for name in ("python", "site_packages")})


def _uv(arguments: Sequence[str | Path], log: Path) -> None:
    run([uv.find_uv_bin(), *arguments], log=log, env=_uv_environment())


def _uv_environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name.startswith("UV_") and "FIND_LINKS" not in name}
    return closed_environment(own, network=True) | {"UV_NO_PROGRESS": "1", "VIRTUAL_ENV": ""}


def _installed(site_packages: Path, name: str) -> str:
    return next(site_packages.glob(f"{name}-*.dist-info")).name.split("-")[1]


def _tools(site_packages: Path) -> dict[str, str]:
    found = (path.name.removesuffix(".dist-info").split("-") for path in site_packages.glob("*.dist-info"))
    return {name: version for name, version in sorted(found)}


def _listed(offer: TorchOffer) -> str:
    try:
        names = offered_files(offer)
    except OSError:
        return ""
    return f"; it lists {', '.join(names[-3:])}" if names else ""


def _last_line(output: str) -> str:
    lines = [line.strip(" ×╰─▶") for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""


