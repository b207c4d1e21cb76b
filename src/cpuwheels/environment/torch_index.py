"""Where a CPU build of torch may come from, and the check that it really is one."""

from __future__ import annotations

import configparser
import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from cpuwheels.core.limits import PAGE
from cpuwheels.fetch.http_stream import HttpFaultError
from cpuwheels.fetch.simple_index import read_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.pins import TorchPin

INDEX_VARIABLES = (
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
)
"""Variables that name package indexes, for uv and for pip."""

_WHEEL_NAME = re.compile(r"torch-[^\s\"'<>#/]+\.whl")


@dataclass(frozen=True)
class TorchOffer:
    """One place to ask for torch.

    Attributes:
        kind: ``find-links`` (a folder or page of files) or ``index`` (PEP 503).
        location: Folder or URL.
        named_by: The setting that names it, for messages.
    """

    kind: Literal["find-links", "index"]
    location: str
    named_by: str

    @property
    def title(self) -> str:
        """The place and the setting that names it, for messages."""
        return f"{self.location} ({self.named_by})"

    @property
    def page(self) -> str:
        """Page on the network that lists wheels of torch; empty for a place of this machine."""
        if not self.location.startswith(("http://", "https://")):
            return ""
        return f"{self.location.rstrip('/')}/torch/" if self.kind == "index" else self.location

    def uv_options(self) -> list[str]:
        """Return the options that make uv look here and nowhere else for torch."""
        if self.kind == "find-links":
            return ["--no-index", "--find-links", self.location]
        return ["--default-index", self.location]


def torch_requirement(version: str, pin: TorchPin, target: Target) -> str:
    """Return the requirement that only a CPU build of ``version`` can satisfy.

    On Linux the CPU builds carry a local label; a plain version there is a CUDA build. macOS has no others.
    """
    label = f"+{pin.local}" if target.system == "Linux" else ""
    return f"torch=={version}{label}"


def torch_offers(
    pin: TorchPin, environ: Mapping[str, str], configs: Iterable[Path], system: str = "Linux"
) -> list[TorchOffer]:
    """List the places to ask, in order: configured find-links, configured indexes, the index with CPU builds.

    Args:
        pin: Names that index.
        environ: For ``UV_FIND_LINKS``, ``PIP_FIND_LINKS``, ``UV_INDEX``, ``PIP_EXTRA_INDEX_URL`` and the like.
        configs: pip's configuration files; see `pip_configs`.
        system: That torch is for.
    """
    settings = list(_pip_settings(configs))
    links = [("UV_FIND_LINKS", environ.get("UV_FIND_LINKS", "").replace(",", " "))]
    links += [("PIP_FIND_LINKS", environ.get("PIP_FIND_LINKS", ""))]
    links += [(place, value) for place, name, value in settings if name == "find-links"]
    indexes = [(name, environ.get(name, "")) for name in INDEX_VARIABLES]
    indexes += [(place, value) for place, name, value in settings if name in {"index-url", "extra-index-url"}]
    offers = [TorchOffer("find-links", item, place) for place, value in links for item in value.split()]
    # uv writes named indexes as name=url.
    offers += [
        TorchOffer("index", re.sub(r"^[\w-]+=(?=\w+:)", "", item), place)
        for place, value in indexes
        for item in value.split()
    ]
    offers.append(TorchOffer("index", pin.index_for(system), "matrix.yaml"))
    first: dict[str, TorchOffer] = {}
    for offer in offers:
        first.setdefault(offer.location, offer)
    return list(first.values())


def pip_configs(environ: Mapping[str, str]) -> list[Path]:
    """Return the configuration files pip would read, most specific last (pip's documentation, "Configuration")."""
    if environ.get("PIP_CONFIG_FILE") == os.devnull:
        return []
    home = Path(environ.get("HOME", "~")).expanduser()
    places = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf"]
    if sys.platform == "darwin":
        places.append(home / "Library/Application Support/pip/pip.conf")
    places.append(Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf")
    if chosen := environ.get("PIP_CONFIG_FILE"):
        places.append(Path(chosen))
    return [place for place in places if place.is_file()]


def _pip_settings(configs: Iterable[Path]) -> Iterable[tuple[str, str, str]]:
    for path in configs:
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # pip itself will complain about it; it cannot name a find-links here
        for section in ("global", "install", "download", "wheel"):
            for name, value in parser.items(section) if parser.has_section(section) else ():
                yield str(path), name.replace("_", "-"), value


def offered_files(offer: TorchOffer, timeout: float = 5) -> list[str]:
    """Return the torch wheel file names a place lists; for messages and the doctor.

    Raises:
        ConnectionError: The place cannot be reached.
        OSError: A folder cannot be read, or the place does not answer as an index does.
    """
    if offer.kind == "find-links" and "://" not in offer.location:
        return sorted(path.name for path in Path(offer.location).expanduser().glob("torch-*.whl"))
    if offer.location.startswith("file://"):
        folder = Path(unquote(offer.location.removeprefix("file://")))
        page = folder / "torch" / "index.html" if offer.kind == "index" else folder
        if page.is_dir():
            return sorted(path.name for path in page.glob("torch-*.whl"))
        return _names(page.read_text(encoding="utf-8")) if page.is_file() else []
    try:
        found = read_page(offer.page or offer.location, patience=replace(PAGE, answer=timeout))
    except HttpFaultError as fault:
        raise (ConnectionError if fault.unreachable else OSError)(str(fault)) from fault
    return _names(found.text) if found else []


def is_version(name: str, wanted: str) -> bool:
    """Return whether a file may be a wheel of the version that a requirement names; its tags are not looked at."""
    try:
        version = Version(name.split("-")[1])
    except InvalidVersion:
        return False
    return Requirement(wanted).specifier.contains(version, prereleases=True)


def _names(text: str) -> list[str]:
    return sorted({unquote(name) for name in _WHEEL_NAME.findall(unquote(text))})


def cuda_of(torch_folder: Path) -> str | None:
    """Return the CUDA version an installed torch was built with, or None for a CPU build.

    Read from ``torch/version.py`` without importing torch, which takes seconds.
    """
    text = (torch_folder / "version.py").read_text(encoding="utf-8")
    match = re.search(r"^cuda(?::[^=]*)?\s*=\s*(?P<value>.+)$", text, re.MULTILINE)
    value = match["value"].strip() if match else "None"
    return None if value == "None" else value.strip("'\"")


def torch_pin(matrix: Matrix, torch: str) -> TorchPin:
    """Return the matrix's entry of a torch version; for one that it does not know, where to look for it."""
    if torch in matrix.torch:
        return matrix.torch[torch]
    newest = matrix.torch[max(matrix.torch, key=Version)]
    return newest.model_copy(update={"wheels": (), "alternates": ()})
