"""The order in which Debian mirrors are tried. What comes from them is pinned by content, so any will do."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cpuwheels.config.context import BuildContext

VARIABLE = "CPUWHEELS_DEBIAN_MIRROR"
APT_ROOT = Path("/etc/apt")

_SCHEMES = ("http://", "https://", "file://")
_ARCHIVE = re.compile(r"/debian(/\d{8}T\d{6}Z)?$")  # the second form is snapshot.debian.org's
_ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<rest>.*)")


@dataclass(frozen=True)
class AptEntry:
    """One archive in apt's sources.

    Attributes:
        uris: Where it is.
        suites: Which of its suites are used.
        components: Which of its components are used.
        signed_by: The key it is signed with, as written; empty when apt's common keys are used.
    """

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str


def mirrors(configured: Sequence[str], environ: Mapping[str, str], apt_root: Path = APT_ROOT) -> tuple[str, ...]:
    """Return the mirrors in the order to try them.

    First those in ``CPUWHEELS_DEBIAN_MIRROR`` (separated by blanks), then those in the machine's apt
    sources, then ``configured``; each once.

    Raises:
        UsageError: The variable holds something that is not an ``http(s)`` or ``file`` URL.
    """
    chosen = environ.get(VARIABLE, "").split()
    for url in chosen:
        if not url.startswith(_SCHEMES):
            raise UsageError(
                f"'{url}' is not a Debian mirror",
                where=f"environment variable {VARIABLE}",
                next_step="give http://, https:// or file:// URLs, separated by blanks, such as "
                "http://deb.debian.org/debian",
            )
    ordered = [*chosen, *apt_mirrors(apt_root), *configured]
    return tuple(dict.fromkeys(url.rstrip("/") for url in ordered))


def debian_mirrors(context: BuildContext) -> tuple[str, ...]:
    """Return the mirrors of a run, in the order to try them; see `mirrors`."""
    return mirrors(context.matrix.debian.mirrors, os.environ, APT_ROOT)


def apt_mirrors(apt_root: Path) -> list[str]:
    """Return the Debian mirrors in apt's sources; none where there are no such files."""
    return [
        uri.rstrip("/")
        for entry in _entries(apt_root)
        if is_debian(entry)
        for uri in entry.uris
        if uri.startswith(_SCHEMES) and _ARCHIVE.search(uri.rstrip("/"))
    ]


def is_debian(entry: AptEntry) -> bool:
    """Return whether an entry is Debian's own archive, not its security archive or somebody else's.

    Others also publish below ``…/debian``. They sign with a key of their own, and Debian's components
    include ``main``.
    """
    ours = not entry.signed_by or "debian-archive" in entry.signed_by
    regular = any(not suite.endswith(("-security", "/updates", "/")) for suite in entry.suites)
    return ours and regular and "main" in entry.components


def _entries(apt_root: Path) -> Iterator[AptEntry]:
    from debian.deb822 import Deb822  # noqa: PLC0415  (slow to import; other systems have no apt)

    folder = apt_root / "sources.list.d"
    for path in (apt_root / "sources.list", *sorted(folder.glob("*.list"))):
        for line in _read(path).splitlines():
            if match := _ONE_LINE.fullmatch(line.split("#")[0].strip()):
                options = dict(part.split("=", 1) for part in (match["options"] or "").split() if "=" in part)
                signed_by = options.get("signed-by", "")
                yield AptEntry((match["uri"],), (match["suite"],), tuple(match["rest"].split()), signed_by)
    for path in sorted(folder.glob("*.sources")):
        lines = (line for line in _read(path).splitlines() if not line.startswith("#"))
        for paragraph in Deb822.iter_paragraphs(lines, use_apt_pkg=False):
            if "deb" not in paragraph.get("Types", "").split() or paragraph.get("Enabled", "yes") == "no":
                continue
            names = ("URIs", "Suites", "Components")
            uris, suites, components = (tuple(paragraph.get(name, "").split()) for name in names)
            yield AptEntry(uris, suites, components, paragraph.get("Signed-By", ""))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # a machine without apt, or a source only root may read (it may hold a password)
        return ""
