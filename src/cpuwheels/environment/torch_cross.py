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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from cpuwheels.core.digests import file_digest, make_key
from cpuwheels.core.errors import TorchError
from cpuwheels.core.filesystem import remove_tree
from cpuwheels.core.process import run
from cpuwheels.core.usage import current_usage
from cpuwheels.core.zip_archive import open_zip
from cpuwheels.environment.foreign_torch import KIND, LAYOUT, ForeignTorch
from cpuwheels.environment.torch_debian import debian_torch
from cpuwheels.environment.torch_index import TorchOffer, cuda_of, pip_configs, torch_offers, torch_requirement
from cpuwheels.environment.torch_install import offer_environment, refuse_unpinned
from cpuwheels.environment.torch_pinned import place_options
from cpuwheels.fetch.requests import is_locked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target
    from cpuwheels.config.pins import TorchPin

_LOG = "torch.log"
_FACTS = "facts.json"
_WANTED = ("torch/include/", "torch/lib/", "torch/version.py", "torch.libs/")
_NOWHERE = "http://127.0.0.1:9"  # the port of a service that answers nothing (RFC 863)
_OLDEST_GLIBC = 17
_OLDEST_MACOS = 11


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
        UnsafeArchiveError: A wheel of torch holds what may not be unpacked.
    """
    wanted = _Wanted(context, torch, pin)
    key = make_key(layout=LAYOUT, torch=torch, pin=pin, target=context.target.id)

    def make(folder: Path) -> None:
        _unpack_wheel(wanted, folder, environ)

    if context.options.locked and not pin.wheels_for(context.target.machine):
        return debian_torch(context, torch, pin, refuse_unpinned(torch, pin, context.target, context.matrix.python[0]))
    try:
        folder = context.store.get(KIND, key, make)
    except TorchError as error:
        return debian_torch(context, torch, pin, error)
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    offer = facts.pop("offer", None)  # older versions did not note it
    return ForeignTorch(folder=folder / "torch", offer=offer and TorchOffer(**offer), **facts)


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
            known = {pinned.sha256 for pinned in request.pin.wheels_for(target.machine)}
            if known and digest not in known:
                faults.append(f"{offer.title}: {wheel.name} is not the pinned one: {digest}")
                continue
            with open_zip(wheel) as archive:
                archive.extract(folder, [name for name in archive.names if name.startswith(_WANTED)])
        if cuda := cuda_of(folder / "torch"):
            for part in folder.iterdir():  # the folder itself is the store's, and the next place needs it
                remove_tree(part)
            faults.append(f"{offer.title}: a CUDA {cuda} build")
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
            "offer": asdict(offer),
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
    context = request.context
    digests = [wheel.sha256 for wheel in request.pin.wheels_for(context.target.machine)]
    place, missing = place_options(offer, digests, store=context.store, reporter=context.reporter)
    if missing:
        faults.append(f"{offer.title}: {missing}")
        return None
    if place == ["--default-index", offer.location]:  # uv's name of it; pip has another
        place = ["--index-url", offer.location]
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "--disable-pip-version-check",
        # It reads the machine's pip.conf, which may name places on the network, and follows a page's links to them.
        *(["--proxy", _NOWHERE] if is_locked() else []),
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
            if offer.page and not is_locked():
                current_usage().installer("torch", wheel.stat().st_size)
            return wheel
        said = said or next((line for line in done.output.splitlines() if line.startswith("ERROR:")), done.output)
        if offer.kind == "index" and "from versions: none" in done.output:
            break  # it has nothing for any Python, or does not answer
    faults.append(f"{offer.title}: {said.removeprefix('ERROR: ')}")
    return None


def platforms(target: Target) -> list[str]:
    """Return the platform tags that a wheel for a target may have, the newest first."""
    newest = [int(part) for part in target.floor.split("_") if part.isdigit()]
    if target.system == "Darwin":
        return [f"macosx_{major}_0_{target.machine}" for major in range(newest[0], _OLDEST_MACOS - 1, -1)]
    tags = [f"manylinux_2_{minor}_{target.machine}" for minor in range(newest[-1], _OLDEST_GLIBC - 1, -1)]
    return [*tags, f"manylinux2014_{target.machine}"]


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
