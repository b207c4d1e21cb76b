"""Packages of npm that are pinned here: the browser that pages are opened in, and what looks for faults in them.

No npm and no node is needed: a package is an archive.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import brotli

from cpuwheels.core.errors import DigestMismatchError
from cpuwheels.core.store import Store, default_root
from cpuwheels.fetch.download import Pinned, fetch

if TYPE_CHECKING:
    from collections.abc import Mapping

CHROMIUM = Path(__file__).with_name("chromium.json")
AXE = Path(__file__).with_name("axe-core.json")

_KIND = "browsers"
_PROGRAM, _LIBRARIES = "chromium", "lib"
_PARTS = {"al2023.tar": "", "swiftshader.tar": _LIBRARIES, "fonts.tar": ""}
"""Archives next to the program: the libraries that it needs, one that draws without a graphics card, fonts."""

_FONT_SETTINGS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts</dir>
  <dir>/usr/local/share/fonts</dir>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""
"""The machine's fonts, and those that came along where it has none."""


def package(pin: Path) -> Path:
    """Return a pinned package; it is fetched once, and compared with both digests each time.

    Raises:
        DownloadError: It cannot be fetched.
        DigestMismatchError: It has other bytes.
    """
    asked = json.loads(pin.read_text(encoding="utf-8"))
    store = Store(default_root())
    archive = fetch(Pinned(asked["name"].rpartition("/")[2], (asked["url"],), asked["sha256"], asked["size"]), store)
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != asked["integrity"]:
        raise DigestMismatchError(
            f"npm's own digest of {asked['name']} is another", where=pin, next_step="correct one of the two digests"
        )
    return archive


def chromium_program() -> tuple[Path, Mapping[str, str]]:
    """Return the pinned browser, for x86-64 Linux, and the variables that it is started with.

    Raises:
        DownloadError: It cannot be fetched.
        DigestMismatchError: It has other bytes.
    """
    archive = package(CHROMIUM)
    key = json.loads(CHROMIUM.read_text(encoding="utf-8"))["sha256"][:24]
    folder = Store(default_root()).get(_KIND, key, lambda entry: _unpack(archive, entry))
    libraries = folder / _LIBRARIES
    return folder / _PROGRAM, {"LD_LIBRARY_PATH": str(libraries), "FONTCONFIG_FILE": str(folder / "fonts.conf")}


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            if member.name.startswith("package/bin/") and (stream := tar.extractfile(member)):
                content = brotli.decompress(stream.read())
                if name == f"{_PROGRAM}.br":
                    (folder / _PROGRAM).write_bytes(content)
                    (folder / _PROGRAM).chmod(0o755)
                elif (place := _PARTS.get(name.removesuffix(".br"))) is not None:
                    with tarfile.open(fileobj=io.BytesIO(content)) as part:
                        part.extractall(folder / place, filter="data")
    (folder / "locales").mkdir()  # the program makes it if it is not there, and an entry stays as it is
    (folder / "fonts.conf").write_text(_FONT_SETTINGS, encoding="utf-8")
