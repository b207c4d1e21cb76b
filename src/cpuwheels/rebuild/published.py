"""A published wheel and what lies next to it: a file, an address, or a version or commit that an index has."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urldefrag, urlsplit

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cpuwheels.attestation.files import ENVELOPE, LARGEST, PROVENANCE, About, about
from cpuwheels.core.digests import COMMIT, file_digest
from cpuwheels.core.errors import RebuildError, UnusableWheelError, UsageError
from cpuwheels.core.filesystem import storage_errors
from cpuwheels.core.plain_file import open_plain
from cpuwheels.fetch.download import Pinned, download
from cpuwheels.fetch.file_names import is_file_name, url_file_name
from cpuwheels.fetch.http_stream import HttpFaultError, http_answer
from cpuwheels.fetch.simple_index import fragment_digest
from cpuwheels.fetch.vllm_wheels import PROJECT, indexed_wheels
from cpuwheels.pipeline.slsa import SUFFIX

if TYPE_CHECKING:
    from cpuwheels.config.matrix import Target
    from cpuwheels.core.console import Reporter
    from cpuwheels.fetch.simple_index import IndexFile

_VERSION = re.compile(r"[0-9][0-9A-Za-z.+_-]{0,99}")
_SCHEMES = frozenset({"http", "https"})
_LARGEST = 2 << 30
"""Bytes of a wheel; PyPI takes 1 GiB of a file at most."""
_OK, _NOT_FOUND, _FORBIDDEN = 200, 404, 403
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Published:
    """A wheel of somebody else, copied here.

    Attributes:
        wheel: The copy, under its own name.
        sha256: Digest of it.
        origin: Where it was.
        about: What lay next to it there.
    """

    wheel: Path
    sha256: str
    origin: str
    about: About


def get_published(
    text: str,
    index: str | None,
    target: Target,
    folder: Path,
    reporter: Reporter,
    *,
    called: tuple[str, str] | None = None,
) -> Published:
    """Return a wheel, copied into a folder, and what lies next to it.

    Args:
        text: Path of a wheel; its address, if need be with ``#sha256=``; the address of a page of an index, without
            ``vllm/``; or with an index a version or a commit's full hash.
        index: Address of an index.
        target: Which wheel is meant, where there are several.
        folder: An empty one.
        reporter: Reports what is fetched.
        called: The beginning of an address, and what it is called where the wheel's origin is stated.

    Raises:
        UsageError: It is none of that, or the index does not have it.
        UnusableWheelError: There is no such file.
        RebuildError: It cannot be read, or has no name for a wheel.
        DownloadError: The server does not answer.
        DigestMismatchError: It has other bytes than the address or the index says.
    """
    if index is None and urlsplit(text).scheme not in _SCHEMES:
        return _local(Path(text).expanduser(), folder)
    url = urldefrag(text)[0]
    if index is not None:
        file = _listed(_page(text, index), target, reporter)
    elif url.endswith(".whl"):
        file = url_file_name(url), url, fragment_digest(text)
    else:
        file = _listed(url, target, reporter)
    found = _fetched(file, folder, reporter)
    return replace(found, origin=found.origin.replace(*called, 1)) if called else found


def _page(text: str, index: str) -> str:
    if urlsplit(index).scheme not in _SCHEMES:
        raise UsageError(
            f"{index!r:.200} is no address", where="--index", next_step="give one that begins with https://"
        )
    if not (COMMIT.fullmatch(text) or _VERSION.fullmatch(text)):
        raise UsageError(
            f"{text!r:.200} is neither a version nor a commit's full hash",
            where="--index",
            next_step="give one of them, or a wheel's path or address without --index",
        )
    return f"{index.rstrip('/')}/{quote(text, safe='')}/cpu"


def _listed(url: str, target: Target, reporter: Reporter) -> tuple[str, str, str | None]:
    page = f"{url.rstrip('/')}/{PROJECT}/"
    found: list[IndexFile] = indexed_wheels(page, target, reporter, setting="the address") or []
    if not found:
        raise UsageError(
            f"the page lists no wheel of {PROJECT} for {target.system} {target.machine}",
            where=page,
            next_step="give the address of a commit, a version or nightly, such as https://…/0.33.0/cpu; "
            "--target names another target",
        )
    return found[0].name, found[0].url, found[0].sha256


def _local(wheel: Path, folder: Path) -> Published:
    if not wheel.exists():
        raise UnusableWheelError(
            f"{wheel} is not there",
            where="WHEEL",
            next_step="give a wheel's path or address, or with --index a version or a commit",
        )
    if wheel.is_dir():
        raise UsageError(f"{wheel} is a folder, not a file", where="WHEEL", next_step="give the path of a wheel in it")
    _check_name(wheel.name, wheel)
    copy = folder / wheel.name
    try:
        with open(open_plain(wheel), "rb") as source, copy.open("xb") as target:  # noqa: PTH123  (a descriptor)
            left = _LARGEST + 1
            while left and (part := source.read(min(left, _CHUNK))):
                target.write(part)
                left -= len(part)
    except OSError as error:
        raise RebuildError(
            f"the wheel cannot be read: {error.strerror}",
            where=wheel,
            next_step="give a wheel's path or address, or with --index a version or a commit",
        ) from error
    if not left:
        raise RebuildError(f"it has more than {_LARGEST >> 30} GiB", where=wheel)
    return Published(copy, file_digest(copy), str(wheel), about(wheel))


def _fetched(found: tuple[str, str, str | None], folder: Path, reporter: Reporter) -> Published:
    name, url, sha256 = found
    _check_name(name, url)
    reporter.info(f"fetching {url}")
    pinned = Pinned(name, (url,), sha256, file_name=name, most=_LARGEST)
    copy = folder / name
    with storage_errors(folder):
        digest = download(pinned, copy, on_bytes=lambda done, total: reporter.download(name, done, total))
    statement, envelope, provenance = (_companion(f"{url}{suffix}") for suffix in (SUFFIX, ENVELOPE, PROVENANCE))
    attestations = {f"{name}{PROVENANCE}": provenance} if provenance is not None else {}
    return Published(copy, digest, url, About(statement, envelope, attestations))


def _companion(url: str) -> bytes | None:
    """Return what an index serves next to a wheel; None if there is nothing."""
    try:
        with http_answer(url, most=LARGEST) as (head, content):
            if head.status in {_NOT_FOUND, _FORBIDDEN}:  # S3 answers so to those who may not list a bucket
                return None
            if head.status == _OK:
                return b"".join(content)
            fault = HttpFaultError(f"HTTP status {head.status}")
    except HttpFaultError as error:
        fault = error
    raise RebuildError(
        f"what is published next to the wheel cannot be fetched: {fault}",
        where=url,
        next_step="try again, or fetch the wheel and the files next to it by hand and give its path",
    ) from fault


def _check_name(name: str, where: str | Path) -> None:
    try:
        project = parse_wheel_filename(name)[0] if is_file_name(name) else ""
    except InvalidWheelFilename:
        project = ""
    if project != PROJECT:
        raise RebuildError(
            f"{name!r:.200} is not a name for a wheel of {PROJECT}",
            where=where,
            next_step="give it the name that it was published with",
        )
