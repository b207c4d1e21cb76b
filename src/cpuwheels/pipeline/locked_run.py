"""A run whose requests are noted, and, if it is locked, compared with the list of its target's downloads."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cpuwheels.config.download_lists import source_downloads
from cpuwheels.config.downloads import TOOLS
from cpuwheels.config.host import markers
from cpuwheels.config.python_lock import locked_files
from cpuwheels.core.errors import LockedError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.parse import parse_toml
from cpuwheels.core.plain_file import read_plain
from cpuwheels.environment.torch_index import pip_configs, torch_offers
from cpuwheels.fetch.debian.mirrors import debian_mirrors
from cpuwheels.fetch.git import FULL_HASH
from cpuwheels.fetch.git_archive import repositories_of
from cpuwheels.fetch.locked_wheels import INDEX_VARIABLE
from cpuwheels.fetch.requests import FILE, Listed, Requests, listed, watched
from cpuwheels.source import acl, clone, onednn
from cpuwheels.source.sdist import SdistRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.source.request import SourceRequest
    from cpuwheels.source.upstream_pins import SourcePins

_LONGEST = 1 << 20
_CMAKE = "cmake/cpu_extension.cmake of the source"


@contextmanager
def watched_requests(context: BuildContext, request: SourceRequest) -> Iterator[None]:
    """Note every request of a run while the block runs; in a locked run, refuse what its list does not have.

    Args:
        context: The run.
        request: What is built.

    Raises:
        MatrixError: A lock cannot be read.
    """
    allowed = allowed_requests(context, request) if context.options.locked else None
    log = context.logs / FILE
    with storage_errors(log):
        log.touch()  # an empty one says that nothing was asked for
    with watched(Requests(log, allowed)):
        yield


def allowed_requests(context: BuildContext, request: SourceRequest, environ: Mapping[str, str] = os.environ) -> Listed:
    """Return what a locked run may ask for.

    That is the list of the target's downloads for this source, on the addresses that it has, on the mirrors and indexes
    that the user named, and on those of matrix.yaml.

    Raises:
        MatrixError: A lock cannot be read.
    """
    matrix, target = context.matrix, context.target
    version, sha256 = (request.version, request.sha256) if isinstance(request, SdistRequest) else (None, None)
    rows = source_downloads(context.root, matrix, target, version, sha256)
    variables = (clone.REPOSITORY_VARIABLE, onednn.REPOSITORY_VARIABLE, acl.REPOSITORY_VARIABLE)
    repositories = [*matrix.repositories, *(place for pin in matrix.onednn.values() for place in pin.repositories)]
    repositories += [place for pin in matrix.acl.values() for place in pin.repositories]
    named = [found for variable in variables for found in repositories_of((), variable, environ)]
    offers = [
        offer
        for pin in matrix.torch.values()
        for offer in torch_offers(pin, environ, pip_configs(environ), target.system)
        if offer.named_by != "matrix.yaml"
    ]
    pages = [offer.page for offer in offers if offer.page]
    if index := environ.get(INDEX_VARIABLE):
        projects = {"vllm", *(file.project for file in locked_files(context.lock(TOOLS)))}
        pages += [f"{index.rstrip('/')}/{canonicalize_name(project)}/" for project in projects]
    return listed(
        f"locks/downloads/{target.id}.json",
        rows,
        mirrors=debian_mirrors(context),
        pages=pages,
        repositories=[*repositories, *named],
    )


def require_listed(context: BuildContext, pins: SourcePins, source: Path) -> None:
    """Refuse, in a locked run, a source that asks for something that is not pinned: before anything else is fetched.

    Torch is checked by itself, also in a run that is not locked.

    Args:
        context: The run.
        pins: What the source asks for.
        source: Its folder.

    Raises:
        LockedError: It asks for another oneDNN or Arm Compute Library, or for other build tools; or the commit of the
            library is not known, and it takes no fallbacks.
    """
    if not context.options.locked:
        return
    matrix, machine = context.matrix, context.target.machine
    if context.target.onednn and pins.onednn and not set(pins.onednn) & matrix.onednn.keys():
        raise _refusal("oneDNN", ", ".join(pins.onednn), _CMAKE, "pin the commit in matrix.yaml (onednn)")
    own = {tag for tag, pin in matrix.acl.items() if machine in pin.machines}
    if own and pins.acl and not set(pins.acl) & own:
        raise _refusal("Arm Compute Library", ", ".join(pins.acl), _CMAKE, "pin the commit in matrix.yaml (acl)")
    chosen = acl.choose_acl(pins.acl, matrix.acl, machine)
    if (
        chosen
        and chosen[1].commit is None
        and not FULL_HASH.fullmatch(chosen[0])
        and not context.options.allow_fallbacks
    ):
        raise acl.refuse_unpinned(chosen[0])
    _require_tools(context, source)


def _require_tools(context: BuildContext, source: Path) -> None:
    """Refuse a source whose build requirements the locked build tools do not meet; torch is checked elsewhere."""
    there: dict[str, list[str]] = {}
    for file in locked_files(context.lock(TOOLS)):
        there.setdefault(canonicalize_name(file.project), []).append(file.version)
    about = dict(markers(context.target, context.matrix.python[0]))
    for text in _required(source):
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue  # setuptools itself says what is wrong with it
        name = canonicalize_name(wanted.name)
        if name == "torch" or (wanted.marker and not wanted.marker.evaluate(about)):
            continue
        if not any(wanted.specifier.contains(version, prereleases=True) for version in there.get(name, [])):
            next_step = "change locks/build-tools.in, run `nox -s lock`"
            raise _refusal("the build tool", text, "pyproject.toml of the source: build-system", next_step)


def _required(source: Path) -> list[str]:
    path = source / "pyproject.toml"
    try:
        data: dict[str, Any] = parse_toml(read_plain(path, _LONGEST), path)
    except OSError:
        return []
    found = data.get("build-system", {})
    required = found.get("requires", []) if isinstance(found, dict) else []
    return [text for text in required if isinstance(text, str)] if isinstance(required, list) else []


def _refusal(what: str, wanted: str, where: str, next_step: str) -> LockedError:
    return LockedError(
        f"the source asks for {what} {wanted}, which is not pinned",
        where=where,
        next_step=f"{next_step}, or build without --locked",
    )
