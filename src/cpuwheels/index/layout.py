"""The layout of an index, as users of https://wheels.vllm.ai know it, and how pages link to each other.

    files/<sha256>/<wheel>                    each wheel once, next to its METADATA, its lock and its reports
    <commit>/cpu/vllm/                        pages of one commit's wheels, of one version's, and of the newest
    <version>/cpu/vllm/
    nightly/cpu/vllm/
    commits.json, commits/<day>.json          which commits have which wheels
    index.html, commits/<day>.html            the same for people
    latest/<target>.json                      the newest wheel of a target

A folder of pages is called a view. All links are relative, so an index may be at any address.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.version import Version

from cpuwheels.attestation.files import ENVELOPE, PROVENANCE
from cpuwheels.fetch.vllm_wheels import PROJECT
from cpuwheels.index.entry import VARIANT
from cpuwheels.pipeline.pylock import FILE as LOCK
from cpuwheels.pipeline.slsa import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.index.entry import Entry

NIGHTLY = "nightly"
FILES = "files/"
"""Files below it never change."""

FORMAT_FILE = "index.json"
JOURNAL, REMOVAL = "publishing.json", "removing.json"
"""What is being published, and removed; the next publisher finishes it."""
COMMITS = "commits.json"
DAYS = "commits/"
HTML, JSON, METADATA_JSON = "index.html", "index.v1.json", "metadata.json"
METADATA_SUFFIX = ".metadata"
"""Of a wheel's ``METADATA`` next to it (PEP 658)."""

SIGNED: Mapping[str, str] = {"statement": SUFFIX, "envelope": ENVELOPE, "provenance": PROVENANCE}
"""Suffixes of what is published of a wheel's provenance, next to it, by what an entry calls it."""

BUNDLE = ".rebuilds.intoto.jsonl"
"""Of rebuilders' signed statements about a wheel, next to it: an in-toto bundle, one envelope on each line."""

SITES = "rebuilder-sites.json"
"""What the sites of rebuilders answered when they were asked last."""

_DIGITS = 16


def wheel_path(entry: Entry) -> str:
    """Return where a wheel is: in a folder of its own, named after its content."""
    return f"{FILES}{entry.sha256[:_DIGITS]}/{entry.filename}"


def companion_path(entry: Entry, name: str) -> str:
    """Return where a file is that belongs to a wheel."""
    return companion(wheel_path(entry), name)


def companion(wheel: str, name: str) -> str:
    """Return where a file is that belongs to the wheel at a path."""
    return f"{posixpath.dirname(wheel)}/{name}"


def files_of(entry: Entry) -> list[str]:
    """Return the paths of a wheel and of what belongs to it: ``METADATA``, provenance, rebuilds, lock, reports."""
    wheel = wheel_path(entry)
    names = [*([LOCK] if entry.lock else []), *entry.beside]
    signed = [suffix for kind, suffix in SIGNED.items() if entry.signed and getattr(entry.signed, kind)]
    rebuilt = [BUNDLE] if entry.rebuilds and entry.rebuilds.statements else []
    about = (f"{wheel}{suffix}" for suffix in (METADATA_SUFFIX, *signed, *rebuilt))
    return [wheel, *about, *(companion_path(entry, name) for name in names)]


def views(entry: Entry, *, nightly: bool) -> list[str]:
    """Return the folders whose pages list a wheel; the newest's comes last.

    Args:
        entry: The wheel.
        nightly: Whether it is the newest of its target.
    """
    version = Version(entry.version)
    own = [entry.commit] if entry.commit else []
    released = [] if version.is_devrelease and entry.commit else [version.public]
    return [*own, *released, *([NIGHTLY] if nightly else [])]


def lasting_view(entry: Entry) -> str:
    """Return the folder that lists a wheel for the longest: a release's folder is kept, the newest's changes."""
    return views(entry, nightly=False)[-1]


def project_folder(view: str) -> str:
    """Return the folder of a view's project page."""
    return f"{view}/{VARIANT}/{PROJECT}"


def day_path(day: str) -> str:
    """Return where the commits of a day are listed.

    Args:
        day: ``YYYY-MM-DD``, UTC.
    """
    return f"{DAYS}{day}.json"


def day_page_path(day: str) -> str:
    """Return where the commits of a day are listed for people."""
    return f"{DAYS}{day}.html"


def latest_path(target: str) -> str:
    """Return the pointer to a target's newest wheel."""
    return f"latest/{target}.json"


def target_order(target: str) -> tuple[bool, str]:
    """Return what targets are sorted by on pages for people: the one that most readers have comes first."""
    return target != "x86", target


def link(page: str, path: str) -> str:
    """Return the relative URL from a page to a file of the index.

    Args:
        page: Folder of the page, below the index's root; empty for the root.
        path: The file.
    """
    return quote(posixpath.relpath(path, page or "."), safe="/")
