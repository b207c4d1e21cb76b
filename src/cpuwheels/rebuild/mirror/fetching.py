"""Files of a mirror, taken from the first place that has them: the stores, addresses of locks, package indexes."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import CpuwheelsError, MirrorError
from cpuwheels.core.filesystem import remove_tree, replacing, storage_errors
from cpuwheels.environment.torch_index import pip_configs, torch_offers
from cpuwheels.fetch.download import Pinned, download
from cpuwheels.fetch.simple_index import index_files
from cpuwheels.rebuild.mirror.manifest import FILES, MirroredFile
from cpuwheels.source.sdist import DEFAULT_INDEX, PROJECT, find_sdist

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.tags import Tag

    from cpuwheels.config.pins import TorchPin
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store
    from cpuwheels.rebuild.mirror.wanted import LockedPackage, WantedFile

_OLDEST = 11
"""Of Python 3."""
_INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")


class Fetcher:
    """Brings files into a mirror.

    Args:
        folder: The mirror.
        store: What it has is not fetched.
        reporter: Reports what is fetched.
        torch: Pins of torch, in the order in which their indexes are asked.
        known: What the mirror has according to its manifest.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        reporter: Reporter,
        torch: tuple[TorchPin, ...] = (),
        known: tuple[MirroredFile, ...] = (),
    ) -> None:
        self._folder = folder
        self._store = store
        self._reporter = reporter
        self._torch = torch
        self._known = known

    def keep(self, wanted: WantedFile) -> MirroredFile:
        """Return a file of the mirror, fetched unless it is there already.

        Raises:
            CpuwheelsError: No place has it, or one has other bytes.
        """
        there = self._there(wanted.sha256)
        if there is None:
            there = self._fetch(wanted)
        return MirroredFile(
            name=there.name, sha256=wanted.sha256, size=there.stat().st_size, stage=wanted.stage, project=wanted.project
        )

    def keep_copy(self, path: Path, sha256: str, stage: str) -> MirroredFile:
        """Return a file of the mirror that is a copy of another one."""
        target = self._folder / FILES / sha256 / path.name
        if self._there(sha256) != target:
            self._copy(path, target)
        return MirroredFile(name=path.name, sha256=sha256, size=target.stat().st_size, stage=stage)

    def keep_package(self, package: LockedPackage) -> list[MirroredFile]:
        """Return the wheels of a locked package that this kind of machine can use.

        Raises:
            CpuwheelsError: The index does not answer, or has none of them.
        """
        known = [one for one in self._known if one.project == package.project and one.sha256 in package.digests]
        if known and all(self._there(one.sha256) for one in known):
            return known
        index = next((os.environ[name] for name in _INDEXES if os.environ.get(name, "").startswith("http")), "")
        page = f"{(index or DEFAULT_INDEX).rstrip('/')}/{package.project}/"
        listed = index_files(page, setting=_INDEXES[0]) or []
        found = [one for one in listed if one.sha256 in package.digests and runs_here(one.name)]
        if not found:
            raise MirrorError(
                f"the index has no wheel of {package.project} {package.version} that the lock names",
                where=page,
                next_step=f"name another index in {_INDEXES[0]}",
            )
        kept = []
        for one in found:
            sha256 = one.sha256 or ""
            if self._there(sha256) is None:
                self._download(Pinned(one.name, (one.url,), sha256, file_name=one.name))
            path = self._there(sha256)
            size = path.stat().st_size if path else 0
            kept.append(MirroredFile(name=one.name, sha256=sha256, size=size, stage="driver", project=package.project))
        return kept

    def _there(self, sha256: str) -> Path | None:
        """Return a file that the mirror has; a damaged one is removed."""
        place = self._folder / FILES / sha256
        for path in sorted(place.glob("[!.]*")) if place.is_dir() else []:
            if path.is_file() and not path.is_symlink() and file_digest(path) == sha256:
                return path
            remove_tree(path)
        return None

    def _fetch(self, wanted: WantedFile) -> Path:
        if entry := self._store.find("downloads", wanted.sha256[:24]):
            for path in entry.iterdir():
                if not path.name.startswith(".") and file_digest(path) == wanted.sha256:
                    return self._copy(path, self._folder / FILES / wanted.sha256 / path.name)
        if wanted.project == "torch" and not wanted.urls:
            return self._torch_wheel(wanted)
        urls = wanted.urls or tuple(self._indexed(wanted))
        if not urls:
            raise MirrorError(
                f"nothing that is trusted says where {wanted.name} ({wanted.stage}) can be fetched",
                where=f"sha256 {wanted.sha256}",
                next_step="build the wheel here once: what is in the stores is taken from there",
            )
        return self._download(Pinned(wanted.name, urls, wanted.sha256, wanted.size, file_name=wanted.name))

    def _indexed(self, wanted: WantedFile) -> Iterator[str]:
        if wanted.stage == "source":
            version = wanted.name.removeprefix(f"{PROJECT}-").removesuffix(".tar.gz")
            index = os.environ.get("CPUWHEELS_PYPI_INDEX") or DEFAULT_INDEX
            if url := find_sdist(index, PROJECT, version):
                yield url

    def _torch_wheel(self, wanted: WantedFile) -> Path:
        """Return torch's wheel from where a build would look for it."""
        faults = []
        for pin in self._torch:
            for offer in torch_offers(pin, os.environ, pip_configs(os.environ)):
                try:
                    found = self._offered(offer.kind, offer.location, wanted.sha256)
                except (CpuwheelsError, OSError) as error:
                    faults.append(f"{offer.location}: {error.what if isinstance(error, CpuwheelsError) else error}")
                    continue
                if found is not None:
                    return found
        raise MirrorError(
            f"no place has the wheel of torch with sha256 {wanted.sha256}",
            where="the places that a build asks for torch",
            output="\n".join(dict.fromkeys(faults)),
            next_step="put it into a folder and name that in UV_FIND_LINKS",
        )

    def _offered(self, kind: str, location: str, sha256: str) -> Path | None:
        if location.startswith(("http://", "https://")):
            page = f"{location.rstrip('/')}/torch/" if kind == "index" else location
            for one in index_files(page, setting="UV_FIND_LINKS") or []:
                if one.sha256 == sha256:
                    return self._download(Pinned(one.name, (one.url,), sha256, file_name=one.name))
            return None
        folder = Path(unquote(urlsplit(location).path) if "://" in location else location).expanduser()
        for path in sorted((folder / "torch" if kind == "index" else folder).glob("torch-*.whl")):
            if file_digest(path) == sha256:
                return self._copy(path, self._folder / FILES / sha256 / path.name)
        return None

    def _download(self, pinned: Pinned) -> Path:
        self._reporter.info(f"fetching {pinned.name}")
        target = self._folder / FILES / str(pinned.sha256) / pinned.file_name
        download(pinned, target, on_bytes=lambda done, total: self._reporter.download(pinned.name, done, total))
        return target

    def _copy(self, path: Path, target: Path) -> Path:
        with storage_errors(self._folder), path.open("rb") as source, replacing(target) as stream:
            shutil.copyfileobj(source, stream, 1 << 20)
        return target


def runs_here(name: str) -> bool:
    """Return whether a file is a wheel that a Python of this kind of machine may use."""
    try:
        tags = parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return False
    system = {"Linux": "manylinux", "Darwin": "macosx"}.get(platform.system(), "-")
    machines = {platform.machine(), "universal2"} if system == "macosx" else {platform.machine()}
    return any(
        tag.platform == "any" or (tag.platform.startswith(system) and tag.platform.endswith(tuple(machines)))
        for tag in tags
        if _is_for_driver(tag)
    )


def _is_for_driver(tag: Tag) -> bool:
    """Return whether a Python that runs cpuwheels, 3.11 or newer with its lock, may use what has a tag."""
    if tag.interpreter.startswith("py3") or tag.abi == "abi3":
        return True
    number = tag.interpreter.removeprefix("cp3")
    return tag.abi in {tag.interpreter, "none"} and number.isdecimal() and int(number) >= _OLDEST
