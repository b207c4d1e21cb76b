"""Rebuilders in tests: each with a key and a site of its own, and statements that need no build."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from cpuwheels.attestation.keys import make_key, public_key
from cpuwheels.attestation.sign import Signing
from cpuwheels.core.console import Reporter
from cpuwheels.index.rebuilders.known import KnownRebuilder
from cpuwheels.index.serve import IndexServer
from cpuwheels.pipeline.in_toto import Subject
from cpuwheels.rebuild.report import PAGE
from cpuwheels.rebuild.signing import sign_rebuild
from cpuwheels.rebuild.site.folder import open_site
from cpuwheels.rebuild.statement import SUFFIX, RebuildStatement, make_statement
from rebuild_statements import details
from running import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpuwheels.index.entry import Entry

FIRST, LATER = "2026-11-24T00:00:00Z", "2026-11-25T00:00:00Z"
MADE_UP = "7" * 64
"""Digest of a wheel that nobody built."""


def quiet(text: io.StringIO | None = None) -> Reporter:
    """Return a reporter whose lines nobody sees but who asks for them."""
    return Reporter("tests", Console(file=text or io.StringIO(), width=200))


def rebuild_statement(name: str, sha256: str, rebuilt: str, moment: str) -> RebuildStatement:
    """Return what a rebuilder states of a wheel."""
    same = rebuilt == sha256
    found = details().model_copy(
        update={
            "result": "reproduced" if same else "differs",
            "rebuilt": Subject(name=name, digest={"sha256": rebuilt}),
        }
    )
    return make_statement(name, sha256, found, rebuilder="https://r.example.org", moment=moment)


@dataclass
class Rebuilder:
    """Somebody with a key, and a site below a folder.

    Attributes:
        name: Of both.
        base: Where the key and the site are.
        url: Where the site is served.
    """

    name: str
    base: Path
    url: str = "http://127.0.0.1:9"
    key: Path = field(init=False)

    def __post_init__(self) -> None:
        self.base.mkdir(parents=True, exist_ok=True)
        self.key = self.base / "key"
        make_key(self.key)

    @property
    def root(self) -> Path:
        return self.base / "site"

    @property
    def keyid(self) -> str:
        return str(public_key(self.base / "key.pub").keyid)

    @property
    def known(self) -> KnownRebuilder:
        return KnownRebuilder(self.name, self.url, (public_key(self.base / "key.pub"),))

    def state(
        self, wheel: Entry, rebuilt: str = "", *, moment: str = FIRST, key: Path | None = None, signed: bool = True
    ) -> Path:
        """Publish a statement that a wheel was rebuilt, by default with the same bytes, and return its folder."""
        with open_site(self.root, quiet()) as site:
            folder = site.place(wheel.sha256, moment)
            folder.mkdir(parents=True)
            made = rebuild_statement(wheel.filename, wheel.sha256, rebuilt or wheel.sha256, moment)
            path = folder / f"{wheel.filename}{SUFFIX}"
            path.write_bytes(made.render())
            (folder / PAGE).write_text("<p>a report</p>")
            if signed:
                sign_rebuild(path, Signing(key=str(key or self.key)))
            site.list_rebuild(folder)
        return folder

    def yaml(self) -> str:
        """Return the rebuilder's part of rebuilders.yaml."""
        pem = (self.base / "key.pub").read_text().replace("\n", "\n        ").rstrip()
        return f"  - name: {self.name}\n    url: {self.url}\n    keys:\n      - |\n        {pem}\n"


def rebuilders_file(path: Path, *rebuilders: Rebuilder) -> Path:
    """Write a rebuilders.yaml and return it."""
    listed = "".join(one.yaml() for one in rebuilders)
    path.write_text(f"rebuilders:\n{listed}" if listed else "rebuilders: []\n")
    return path


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder as it is, and yield its address."""
    folder.mkdir(parents=True, exist_ok=True)
    with running(IndexServer(folder, 0)) as address:
        yield address
