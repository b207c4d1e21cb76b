"""Wheels whose kernels may be used, wherever they are: a file, a folder, a URL, a package index."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urlsplit

from cpuwheels.core.errors import PrecompiledError
from cpuwheels.fetch.http_range import NoRangesError, remote_file
from cpuwheels.fetch.simple_index import IndexFile, fragment_digest
from cpuwheels.fetch.vllm_wheels import PROJECT, fetch_wheel, indexed_wheels, wheel_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.matrix import Target
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

OPTION = "--kernels-from"


@dataclass(frozen=True)
class LocalCandidate:
    """A wheel on this machine."""

    path: Path

    @property
    def name(self) -> str:
        """Its file name."""
        return self.path.name

    @property
    def origin(self) -> str:
        """Where it is."""
        return str(self.path)

    @contextmanager
    def peek(self) -> Iterator[IO[bytes]]:
        """Yield it for reading."""
        with self.path.open("rb") as stream:
            yield stream

    def get(self) -> Path:
        """Return the file."""
        return self.path


@dataclass(frozen=True)
class RemoteCandidate:
    """A wheel on a server, with a digest."""

    file: IndexFile
    store: Store
    reporter: Reporter

    @property
    def name(self) -> str:
        """Its file name."""
        return self.file.name

    @property
    def origin(self) -> str:
        """Where it is."""
        return self.file.url

    @contextmanager
    def peek(self) -> Iterator[IO[bytes]]:
        """Yield it for reading; if the server serves ranges, little more is fetched than is read.

        Raises:
            DownloadError: The server does not answer.
        """
        try:
            stream = remote_file(self.file.url)
        except NoRangesError:
            stream = self.get().open("rb")
        with stream:
            yield stream

    def get(self) -> Path:
        """Return the file, fetched and checked.

        Raises:
            DownloadError: It cannot be fetched.
            DigestMismatchError: It has other bytes than promised.
        """
        return fetch_wheel(self.file, self.store, self.reporter)


def candidates(context: BuildContext, place: str) -> Sequence[LocalCandidate | RemoteCandidate]:
    """Return the wheels for a target at a place, the newest version first.

    Args:
        context: The run; its target is what they have to be for, and its store keeps downloads.
        place: A wheel, a folder of wheels, the URL of a wheel with ``#sha256=``, or an index.

    Raises:
        PrecompiledError: There is no such place, or no wheel for the target there.
        DownloadError: The index does not answer.
    """
    target, reporter = context.target, context.reporter
    remote = urlsplit(place).scheme in {"http", "https"}
    found: Sequence[LocalCandidate | RemoteCandidate]
    found = (
        [RemoteCandidate(file, context.store, reporter) for file in _on_server(place, target, reporter)]
        if remote
        else ([LocalCandidate(path) for path in _in_folder(Path(place).expanduser(), target)])
    )
    if not found:
        raise PrecompiledError(
            f"no wheel of {PROJECT} for {target.system} {target.machine}",
            where=f"{OPTION} {place}",
            next_step="name a wheel, a folder with wheels, or an index of wheels for this target",
        )
    return found


def check_place(place: str) -> None:
    """Check that a place on this machine is there.

    Args:
        place: See `candidates`; servers are not asked.

    Raises:
        PrecompiledError: It is not.
    """
    path = Path(place).expanduser()
    if urlsplit(place).scheme not in {"http", "https"} and not path.exists():
        raise PrecompiledError(
            f"{path} is not there", where=OPTION, next_step="name a wheel, a folder with wheels, or the URL of an index"
        )


def _in_folder(path: Path, target: Target) -> list[Path]:
    check_place(str(path))
    wheels = [(wheel_version(one.name, target), one) for one in (path.glob("*.whl") if path.is_dir() else [path])]
    known = [(version, one) for version, one in wheels if version is not None]
    return [one for _, one in sorted(known, reverse=True)]


def _on_server(place: str, target: Target, reporter: Reporter) -> list[IndexFile]:
    url = urldefrag(place)[0]
    if not url.endswith(".whl"):
        page = f"{url.rstrip('/')}/{PROJECT}/"
        return indexed_wheels(page, target, reporter, setting=OPTION) or []
    digest = fragment_digest(place)
    if digest is None:
        raise PrecompiledError(
            "the URL of a wheel needs its digest",
            where=f"{OPTION} {place}",
            next_step=f"give {url}#sha256=<64 hex digits>",
        )
    file = IndexFile(unquote(PurePosixPath(urlsplit(url).path).name), url, digest)
    return [file] if wheel_version(file.name, target) is not None else []
