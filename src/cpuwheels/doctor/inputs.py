"""The list of what one build may fetch, made from the matrix, the locks and what the store has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.doctor.needs import Need, Place
from cpuwheels.doctor.network import Answer, ask_git, ask_url
from cpuwheels.environment.torch_index import TorchOffer, offered_files, pip_configs, torch_offers
from cpuwheels.fetch.download import is_stored, mirrored
from cpuwheels.fetch.git import place_of
from cpuwheels.fetch.git_archive import commit_key, repositories_of
from cpuwheels.source import acl
from cpuwheels.source.onednn import REPOSITORY_VARIABLE
from cpuwheels.source.result import KIND
from cpuwheels.source.sdist import DEFAULT_INDEX, PROJECT, SdistRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Target
    from cpuwheels.config.pins import AclPin, OneDnnPin, TorchPin
    from cpuwheels.core.store import Store

MIRROR_STEP = "name a mirror that can be reached in CPUWHEELS_DEBIAN_MIRROR (docs/mirrors.md)"
_OFFER_SECONDS = 8


@dataclass(frozen=True)
class Context:
    """What every need is worked out from.

    Attributes:
        root: The project's folder.
        store: What is already there.
        environ: The environment.
        mirrors: Debian mirrors, in order.
        locked: Whether fallbacks are refused.
        certain: Whether the source's own pins are known.
    """

    root: Path
    store: Store
    environ: Mapping[str, str]
    mirrors: tuple[str, ...]
    locked: bool
    certain: bool


def sdist_need(context: Context, request: SdistRequest) -> Need:
    """Return the need for vLLM's sdist."""
    index = context.environ.get("CPUWHEELS_PYPI_INDEX")
    urls = list(request.urls)
    if index or not urls:
        urls.insert(0, f"{(index or DEFAULT_INDEX).rstrip('/')}/{PROJECT}/")
    stored = context.store.path(KIND, request.key).is_dir() or is_stored(request.sha256, context.store)
    return Need(
        f"vLLM {request.version} sdist",
        "the sources",
        stored,
        _urls(urls),
        "check the network, or set CPUWHEELS_PYPI_INDEX to an index that can be reached",
        size=request.size,
    )


def debian_need(context: Context, lock_name: str, purpose: str) -> Need:
    """Return the need for the packages of a Debian lock; the first missing one stands for all."""
    lock = load_lock(context.root, lock_name)
    missing = [package for package in lock.packages if not is_stored(package.sha256, context.store)]
    urls = mirrored(missing[0].path, context.mirrors) if missing else ()
    size = sum(package.size for package in missing)
    return Need(f"packages of {lock_name}", purpose, not missing, _urls(urls), MIRROR_STEP, size=size)


def onednn_need(context: Context, tag: str, pin: OneDnnPin) -> Need:
    """Return the need for oneDNN: the pinned commit, or else the first fallback."""
    repositories = repositories_of(pin.repositories, REPOSITORY_VARIABLE, context.environ)
    alternate = None
    if pin.alternates:
        archive = pin.alternates[0]
        alternate = Need(
            f"the fallback oneDNN {archive.version}",
            "the matrix products",
            is_stored(archive.sha256, context.store),
            _urls(mirrored(archive.debian, context.mirrors)),
            MIRROR_STEP,
            size=archive.size,
        )
    return Need(
        f"oneDNN {tag}",
        "the matrix products",
        has_commit(context.store, "onednn", pin.commit),
        tuple(Place(repository, partial(ask_git, place_of(repository))) for repository in repositories),
        f"make one of the repositories reachable, or name a clone in {REPOSITORY_VARIABLE}",
        alternate,
        context.locked,
        context.certain,
    )


def has_commit(store: Store, kind: str, commit: str | None) -> bool:
    """Return whether the sources of a commit are in the store; False for a commit that is not known."""
    return commit is not None and store.path(kind, commit_key(commit)).is_dir()


def acl_need(context: Context, tag: str, pin: AclPin) -> Need:
    """Return the need for Arm Compute Library, without which a build goes on unless it is locked."""
    repositories = repositories_of(pin.repositories, acl.REPOSITORY_VARIABLE, context.environ)
    step = f"make one of the repositories reachable, or name a clone in {acl.REPOSITORY_VARIABLE}"
    if context.locked and pin.commit is None:
        repositories = ()
        step = f"write its commit into matrix.yaml: in a clone `git rev-parse '{tag}^{{commit}}'` prints it"
    return Need(
        f"{acl.NAME} {tag}",
        "oneDNN's matrix products; a build goes on without it unless --locked refuses that",
        has_commit(context.store, acl.KIND, pin.commit),
        tuple(Place(repository, partial(ask_git, place_of(repository))) for repository in repositories),
        step,
        certain=context.certain and context.locked,
    )


def torch_need(
    context: Context, version: str, pin: TorchPin, target: Target, pythons: Iterable[str], *, stored: bool
) -> Need:
    """Return the need for a CPU build of torch.

    Args:
        context: The context of all needs.
        version: Without a local label.
        pin: Where CPU builds are.
        target: Their platform.
        pythons: Versions of which there is an interpreter.
        stored: Whether an environment with it is in the store.
    """
    wanted = f"{version}+{pin.local}" if target.system == "Linux" else version
    tags = tuple(f"cp{python.replace('.', '')}" for python in pythons)
    offers = torch_offers(pin, context.environ, pip_configs(context.environ), target.system)
    places = tuple(Place(offer.title, partial(_ask_offer, offer, wanted, tags, target.machine)) for offer in offers)
    other = pin.alternate(target.machine)
    return Need(
        f"torch {wanted}",
        "compiling and linking",
        stored,
        places,
        f"make {pin.index} reachable, or put the wheel into a folder and name it in UV_FIND_LINKS",
        debian_need(context, other.root, "compiling and linking") if other else None,
        context.locked,
        certain=context.certain,
    )


def index_need(context: Context, *, stored: bool, size: int | None = None) -> Need:
    """Return the need for the package index with the build tools, whose bytes are known or not."""
    environ = context.environ
    index = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL") or DEFAULT_INDEX
    return Need(
        "package index",
        "the locked build tools",
        stored,
        _urls([f"{index.rstrip('/')}/cmake/"]),
        "check the network, or set UV_DEFAULT_INDEX to an index that can be reached",
        size=size,
    )


def suitable(names: Sequence[str], wanted: str, tags: Sequence[str], machine: str) -> str | None:
    """Return the first wheel file name of a version for one of some interpreters and a machine, or None."""
    for name in names:
        try:
            _, version, _, found = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        fits = any(tag.interpreter in tags and tag.platform.endswith(f"_{machine}") for tag in found)
        if version == Version(wanted) and fits:
            return name
    return None


def _ask_offer(offer: TorchOffer, wanted: str, tags: Sequence[str], machine: str) -> Answer:
    names = offered_files(offer, _OFFER_SECONDS)
    if name := suitable(names, wanted, tags, machine):
        return Answer(True, f"has {name}")
    listed = f"it lists {', '.join(names[-2:])}" if names else "it lists no torch"
    return Answer(False, f"has no {wanted} for {', '.join(tags) or 'any Python of this machine'}; {listed}")


def _urls(urls: Iterable[str]) -> tuple[Place, ...]:
    return tuple(Place(url, partial(ask_url, url)) for url in urls)
