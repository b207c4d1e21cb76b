"""What a run asks of other machines: written into its log, and in a locked run compared with the list of downloads.

Whatever of this program fetches something asks here first. Programs that fetch by themselves (uv, pip) get no network
in a locked run; what they install is fetched here and put into a folder.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from cpuwheels.config.package_urls import DEBIAN
from cpuwheels.core.errors import LockedError
from cpuwheels.core.text import printable
from cpuwheels.core.urls import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cpuwheels.config.downloads import Download

FILE = "requests.log"
"""In a run's log folder."""

_ACTIVE: ContextVar[Requests | None] = ContextVar("requests", default=None)


@dataclass(frozen=True)
class Listed:
    """What a locked run may ask for.

    Attributes:
        title: Which list it is, for messages.
        digests: sha256 of each file.
        commits: Hash of each commit.
        addresses: Host and path of each file, and of pages on which addresses are looked up.
        debian: Paths of packages below a mirror of Debian.
        mirrors: Where such mirrors are: host and path.
        repositories: The same of git repositories.
    """

    title: str
    digests: frozenset[str]
    commits: frozenset[str]
    addresses: frozenset[str]
    debian: frozenset[str] = frozenset()
    mirrors: tuple[str, ...] = ()
    repositories: frozenset[str] = frozenset()


def listed(
    title: str,
    downloads: Iterable[Download],
    *,
    mirrors: Iterable[str] = (),
    pages: Iterable[str] = (),
    repositories: Iterable[str] = (),
) -> Listed:
    """Return what a list allows.

    Args:
        title: Which list it is, for messages.
        downloads: The list.
        mirrors: Of Debian.
        pages: Of package indexes that the user named, for projects of the list.
        repositories: Git repositories that the matrix or the user names.
    """
    rows = tuple(downloads)
    below = f"{DEBIAN}/"
    return Listed(
        title=title,
        digests=frozenset(digest for row in rows if (digest := row.digest.get("sha256"))),
        commits=frozenset(commit for row in rows if (commit := row.digest.get("gitCommit"))),
        addresses=frozenset(address(url) for row in rows for url in (row.location, row.page) if url)
        | frozenset(map(address, pages)),
        debian=frozenset(unquote(row.location.removeprefix(below)) for row in rows if row.location.startswith(below)),
        mirrors=tuple(address(mirror) for mirror in mirrors),
        repositories=frozenset(map(address, repositories)),
    )


def is_remote(repository: str) -> bool:
    """Return whether a git repository is on another machine."""
    scheme, _, rest = repository.partition("://")
    return scheme != "file" if rest else ":" in repository.partition("/")[0]  # host:path is ssh's


def address(url: str) -> str:
    """Return host and path of a URL, without a slash at the end: the scheme does not say what is there."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()  # with its port, even one that is not a number
    return f"{host}{unquote(parts.path).rstrip('/')}"


@dataclass
class Requests:
    """The requests of one run.

    Attributes:
        log: Where they are written, a line each.
        listed: What they are compared with; None if the run is not locked.
    """

    log: Path
    listed: Listed | None = None
    _learned: set[str] = field(default_factory=set)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def get(self, url: str) -> None:
        """Note a request of a web server.

        Raises:
            LockedError: The list has neither this address nor, for a path of Debian's, this mirror.
        """
        if self.listed is not None and not self._is_listed(url, self.listed):
            raise _refusal(f"{without_userinfo(url)} is not an address of", self.listed, without_userinfo(url))
        self.note("get", url)

    def redirected(self, url: str) -> str:
        """Note where a server sends a request, and return why it is not followed there, or nothing.

        A server of the list may send to any path of one, as snapshots of Debian do; the bytes are still compared.
        """
        if self.listed is not None and _host(address(url)) not in self._hosts(self.listed):
            return f"a redirect to {without_userinfo(url)}; {self.listed.title} has nothing on that server"
        self.note("redirected", url)
        return ""

    def file(self, name: str, sha256: str | None, where: str) -> None:
        """Check a file that is about to be fetched.

        Raises:
            LockedError: Its digest is not known, or is not in the list.
        """
        if self.listed is None:
            return
        if sha256 is None:
            raise _refusal(f"{name} has no digest that could be in", self.listed, where)
        if sha256 not in self.listed.digests:
            raise _refusal(f"{name} with the sha256 {sha256} is not in", self.listed, where)

    def commit(self, name: str, commit: str) -> None:
        """Check a commit that is about to be fetched or used.

        Raises:
            LockedError: It is not in the list.
        """
        if self.listed is not None and commit not in self.listed.commits:
            raise _refusal(f"{name} with the commit {commit} is not in", self.listed, name)

    def repository(self, place: str) -> None:
        """Note that a git repository is asked; one of this machine is not.

        Raises:
            LockedError: It is none of those that the matrix or the user names.
        """
        if not is_remote(place):
            return
        if self.listed is not None and address(place) not in self.listed.repositories:
            raise _refusal(f"{without_userinfo(place)} is no repository of", self.listed, without_userinfo(place))
        self.note("git", place)

    def learn(self, found: Iterable[tuple[str, str | None]]) -> None:
        """Allow addresses that a page of the list names.

        Args:
            found: Addresses with the digests that the page gives; one of a file that is not in the list is not allowed.
        """
        if self.listed is not None:
            with self._guard:
                self._learned |= {address(url) for url, sha256 in found if sha256 in self.listed.digests}

    def note(self, kind: str, what: str) -> None:
        """Write a line into the log, without what may be a credential: user names, passwords and queries."""
        with self._guard, self.log.open("a", encoding="utf-8") as stream:
            stream.write(f"{kind} {printable(without_userinfo(what)).partition('?')[0]}\n")

    def _hosts(self, allowed: Listed) -> set[str]:
        with self._guard:
            return {_host(place) for place in (*allowed.addresses, *allowed.mirrors, *self._learned)}

    def _is_listed(self, url: str, allowed: Listed) -> bool:
        place = address(url)
        if place in allowed.addresses or place in self._learned:
            return True
        return any(
            place.startswith(f"{mirror}/") and place.removeprefix(f"{mirror}/") in allowed.debian
            for mirror in allowed.mirrors
        )


@contextmanager
def watched(requests: Requests) -> Iterator[Requests]:
    """Note and compare the requests of this thread, and of those that get its context, while the block runs."""
    token = _ACTIVE.set(requests)
    try:
        yield requests
    finally:
        _ACTIVE.reset(token)


def current() -> Requests | None:
    """Return the requests of the run that this thread works for."""
    return _ACTIVE.get()


def is_locked() -> bool:
    """Return whether only what is in a list may be fetched."""
    found = _ACTIVE.get()
    return found is not None and found.listed is not None


def _host(place: str) -> str:
    return place.partition("/")[0]


def _refusal(what: str, allowed: Listed, where: str) -> LockedError:
    return LockedError(
        f"{what} {allowed.title}, and --locked fetches nothing else",
        where=where,
        next_step="pin it in matrix.yaml or in its lock and run `nox -s lock`, or build without --locked",
    )
