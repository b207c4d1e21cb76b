"""Publishing in tests: into an index whose bucket may die, with every link followed afterwards."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from cpuwheels.index.bucket import Folder
from cpuwheels.index.layout import METADATA_SUFFIX
from cpuwheels.index.publish import Publication
from html_anchors import links
from index_entries import entry

WHEEL = "vllm-0.32.1.dev{n}+g{c}.cpu-cp38-abi3-manylinux_2_27_{machine}.whl"


def publication(folder: Path, number: int = 1, target: str = "x86", content: str = "") -> Publication:
    commit = f"{number:040x}"
    machine = {"x86": "x86_64", "arm": "aarch64"}[target]
    name = WHEEL.format(n=number, c=commit[-9:], machine=machine)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content or name)
    one = entry(
        filename=name,
        version=f"0.32.1.dev{number}+g{commit[-9:]}.cpu",
        commit=commit,
        target=target,
        sha256=f"{hash_of(content or name)}",
        made=f"2026-11-{number:02}T10:00:00Z",
        beside=("record.json",),
    )
    return Publication(one, folder / name, b"Metadata", {"record.json": b"{}"}, nightly=True)


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def check_links(root: Path) -> int:
    """Follow every link of every page, and return how many there are."""
    count = 0
    for page in root.rglob("index.html"):
        for link in links(page.read_text()):
            url = urlsplit(urljoin(page.as_uri(), link))
            target = Path(unquote(url.path))
            assert target.exists(), f"{page} leads to {target}"
            if target.suffix == ".whl":
                assert url.fragment in {
                    "",
                    f"sha256={hashlib.sha256(target.read_bytes()).hexdigest()}",
                }  # people's pages have none
                assert url.fragment or page.parent.name != "vllm"
                assert target.with_name(f"{target.name}{METADATA_SUFFIX}").is_file()
            count += 1
    for page in root.rglob("metadata.json"):
        for row in json.loads(page.read_text()):
            assert (page.parent / unquote(row["path"])).resolve().is_file()
            count += 1
    for page in [*root.glob("commits.json"), *root.glob("commits/*.json")]:
        data = json.loads(page.read_text())
        for row in data.get("newest", []) + data.get("rows", []):
            for wheel in row["wheels"].values():
                assert (root / wheel["path"]).is_file()
                count += 1
    return count


class DyingError(BaseException):
    """In place of a power cut."""


class Dying(Folder):
    """A folder whose publisher dies before one of its changes."""

    def __init__(self, folder: Path, at: int) -> None:
        super().__init__(folder)
        self.left = at

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise DyingError

    def write(self, path: str, content: bytes) -> None:
        self._step()
        super().write(path, content)

    def add(self, path: str, content: bytes | Path) -> bool:
        self._step()
        return super().add(path, content)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)
