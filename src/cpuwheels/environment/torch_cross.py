"""Torch for another kind of machine: its headers and libraries, to build and to audit against.

Nothing of it runs here. It comes from a CPU wheel of the target's platform, found in the same places as any other
torch; where none of them has one, from the Debian root that the matrix names as the fallback.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.core.digests import file_digest, make_key
from cpuwheels.core.errors import CommandError, LockedError, TorchError
from cpuwheels.core.filesystem import link_or_copy, remove_tree
from cpuwheels.core.process import run
from cpuwheels.environment.torch_index import cuda_of, pip_configs, torch_offers, torch_requirement
from cpuwheels.environment.torch_install import offer_environment, refuse_unpinned
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.debian.root import content_key, unpacked_root
from cpuwheels.toolchain.debian_compiler import patchelf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target
    from cpuwheels.config.pins import TorchPin
    from cpuwheels.environment.torch_index import TorchOffer

KIND = "torch"
ROOTS = "roots"
LIBRARIES = ("libtorch", "libtorch_cpu", "libc10")
"""What upstream's modules are linked to, by PyTorch's names; distributors add a version to them."""

_LAYOUT = 2
_LOG = "torch.log"
_FACTS = "facts.json"
_WANTED = ("torch/include/", "torch/lib/", "torch/version.py", "torch.libs/")
_HEADERS = ("ATen", "c10", "caffe2", "torch")
_OLDEST_GLIBC = 17
_OLDEST_MACOS = 11


@dataclass(frozen=True)
class ForeignTorch:
    """A torch that this machine cannot run.

    Attributes:
        version: With its local label, such as ``2.14.0+cpu``.
        folder: Laid out as the installed package: ``include/``, ``lib/``.
        digest: Names its content.
        origin: For people: where it came from.
        pinned: Whether it is pinned by content.
        alternate: Whether it replaces a wheel that could not be fetched.
    """

    version: str
    folder: Path
    digest: str
    origin: str
    pinned: bool
    alternate: bool = False


@dataclass(frozen=True)
class _Wanted:
    """Which torch is needed.

    Attributes:
        context: The run, for a target that is not of this machine's kind.
        torch: Version that the source pins, without a local label.
        pin: Where builds of it are.
    """

    context: BuildContext
    torch: str
    pin: TorchPin


def foreign_torch(
    context: BuildContext, torch: str, pin: TorchPin, environ: Mapping[str, str] = os.environ
) -> ForeignTorch:
    """Return the torch of a target, fetching it if the store does not have it.

    Args:
        context: The run, for a target that is not of this machine's kind.
        torch: Version that the source pins, without a local label.
        pin: Where builds of it are.
        environ: Names package indexes and folders, and pip's configuration.

    Raises:
        TorchError: No place has a CPU build, and there is no fallback.
        LockedError: The run is locked, and the torch found is a fallback or not pinned by content.
        DownloadError: The fallback cannot be fetched.
    """
    wanted = _Wanted(context, torch, pin)
    key = make_key(layout=_LAYOUT, torch=torch, pin=pin, target=context.target.id)

    def make(folder: Path) -> None:
        _unpack_wheel(wanted, folder, environ)

    try:
        folder = context.store.get(KIND, key, make)
    except TorchError as error:
        return _alternate(wanted, error)
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    if context.options.locked and not facts["pinned"]:
        raise refuse_unpinned(f"torch {facts['version']}")
    return ForeignTorch(folder=folder / "torch", **facts)


def _unpack_wheel(request: _Wanted, folder: Path, environ: Mapping[str, str]) -> None:
    """Unpack the CPU wheel of the first place that has one."""
    target, log = request.context.target, request.context.logs / _LOG
    wanted = torch_requirement(request.torch, request.pin, target)
    faults: list[str] = []
    for offer in torch_offers(request.pin, environ, pip_configs(environ), target.system):
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            wheel = _download(request, wanted, offer, Path(fresh), faults)
            if wheel is None:
                continue
            digest = file_digest(wheel)
            known = {pinned.sha256 for pinned in request.pin.wheels if pinned.machine == target.machine}
            if known and digest not in known:
                faults.append(f"{offer.location} ({offer.named_by}): {wheel.name} is not the pinned one: {digest}")
                continue
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder, [name for name in archive.namelist() if name.startswith(_WANTED)])
        if cuda := cuda_of(folder / "torch"):
            for part in folder.iterdir():  # the folder itself is the store's, and the next place needs it
                remove_tree(part)
            faults.append(f"{offer.location} ({offer.named_by}): a CUDA {cuda} build")
            continue
        if not known:
            request.context.reporter.announce(
                f"{wanted} for {target.machine} is not pinned by content; from {offer.location}"
            )
        facts = {
            "version": str(parse_wheel_filename(wheel.name)[1]),
            "digest": digest,
            "origin": f"{offer.location} (named by {offer.named_by})",
            "pinned": bool(known),
        }
        (folder / _FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        return
    raise TorchError(
        f"no CPU build of torch {request.torch} can be found for {target.system} {target.machine}",
        where="the configured places and the index in matrix.yaml",
        output="\n".join(dict.fromkeys(faults)),
        log=log,
        next_step=f"make {request.pin.index_for(target.system)} reachable, or put the wheel into a folder and "
        "name it in UV_FIND_LINKS or PIP_FIND_LINKS",
    )


def _download(request: _Wanted, wanted: str, offer: TorchOffer, folder: Path, faults: list[str]) -> Path | None:
    """Let pip, which takes any platform's wheels, fetch torch from one place."""
    place = ["--no-index", "--find-links", offer.location]
    if offer.kind == "index":
        place = ["--index-url", offer.location]
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "--disable-pip-version-check",
        "download",
        "--quiet",
        "--no-deps",
        *("--retries", "0", "--timeout", "15", "--only-binary", ":all:", "--implementation", "cp", "--dest", folder),
        *(part for platform in platforms(request.context.target) for part in ("--platform", platform)),
    ]
    said = ""
    for python in request.context.matrix.python:
        done = run(
            [*command, "--python-version", python, *place, wanted],
            log=request.context.logs / _LOG,
            env=offer_environment(),
            check=False,
        )
        if wheel := next(folder.glob("torch-*.whl"), None):
            return wheel
        said = said or next((line for line in done.output.splitlines() if line.startswith("ERROR:")), done.output)
        if offer.kind == "index" and "from versions: none" in done.output:
            break  # it has nothing for any Python, or does not answer
    faults.append(f"{offer.location} ({offer.named_by}): {said.removeprefix('ERROR: ')}")
    return None


def platforms(target: Target) -> list[str]:
    """Return the platform tags that a wheel for a target may have, the newest first."""
    newest = [int(part) for part in target.floor.split("_") if part.isdigit()]
    if target.system == "Darwin":
        return [f"macosx_{major}_0_{target.machine}" for major in range(newest[0], _OLDEST_MACOS - 1, -1)]
    tags = [f"manylinux_2_{minor}_{target.machine}" for minor in range(newest[-1], _OLDEST_GLIBC - 1, -1)]
    return [*tags, f"manylinux2014_{target.machine}"]


def _alternate(request: _Wanted, reason: TorchError) -> ForeignTorch:
    context = request.context
    alternate = request.pin.alternate(context.target.machine)
    if alternate is None:
        raise reason
    if context.options.locked:
        raise LockedError(
            f"torch {request.torch} for {context.target.machine} cannot be reached and --locked refuses fallbacks",
            where=reason.where,
            output=reason.output,
            next_step=f"make {request.pin.index} reachable, or build without --locked",
        ) from reason
    lock = load_lock(context.root, alternate.root)
    content = content_key(lock)

    def make(folder: Path) -> None:
        root = unpacked_root(
            lock, ROOTS, mirrors=debian_mirrors(context), store=context.store, reporter=context.reporter
        )
        _lay_out(root, folder / "torch", alternate.root, context.logs / _LOG)

    folder = context.store.get(KIND, make_key(layout=_LAYOUT, root=content), make)
    context.reporter.announce(
        f"no wheel of torch {request.torch} for {context.target.machine} can be reached; building against Debian's "
        f"{alternate.version} instead. The build record and the wheel's metadata say so."
    )
    return ForeignTorch(
        version=alternate.version,
        folder=folder / "torch",
        digest=content,
        origin=f"locks/{alternate.root}.yaml",
        pinned=True,
        alternate=True,
    )


def install_stub(site_packages: Path, torch: ForeignTorch) -> None:
    """Put the package that answers in torch's place into a build environment (``resources/torch_stub/``).

    Upstream looks for torch's OpenMP library next to the package, and links the one that it finds there.
    """
    libraries = torch.folder.with_name("torch.libs")
    if libraries.is_dir():
        (site_packages / libraries.name).symlink_to(libraries)
    stub = Path(__file__).parent / "resources" / "torch_stub"
    shutil.copytree(stub, site_packages / "torch", ignore=shutil.ignore_patterns("__pycache__"))
    text = f'"""What it was built for."""\n\n__version__ = "{torch.version}"\ncuda = hip = xpu = None\n'
    (site_packages / "torch" / "version.py").write_text(text, encoding="utf-8")


def _lay_out(root: Path, folder: Path, lock: str, log: Path) -> None:
    """Lay out a distribution's torch as the package of a wheel."""
    for name in _HEADERS:
        if (headers := root / "usr/include" / name).is_dir():
            shutil.copytree(headers, folder / "include" / name, copy_function=link_or_copy)
    (folder / "lib").mkdir(parents=True)
    for name in LIBRARIES:
        found = sorted(root.glob(f"usr/lib/*/{name}.so*"))
        if not found or not (folder / "include").is_dir():
            raise TorchError(
                f"the packages hold no {name}.so, or none of its headers",
                where=f"locks/{lock}.yaml",
                next_step="add libtorch-dev to its suites and run `nox -s lock`",
            )
        # By PyTorch's name inside, too: it is what the linker writes into a module.
        library = folder / "lib" / f"{name}.so"
        shutil.copyfile(found[-1].resolve(), library)
        try:
            run([patchelf(), "--set-soname", library.name, library], log=log)
        except CommandError as error:
            raise TorchError(
                f"{library.name} cannot be given PyTorch's name",
                where=f"locks/{lock}.yaml",
                output=error.output,
                log=error.log,
                next_step="the package is damaged or not for this target: run `nox -s lock`",
            ) from error
    for openmp in root.glob("usr/lib/*/libgomp.so.1"):
        shutil.copyfile(openmp.resolve(), folder / "lib" / openmp.name)
