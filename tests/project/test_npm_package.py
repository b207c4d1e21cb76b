"""The pinned packages of npm: what is unpacked of the browser, and other bytes refused."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import brotli
import npm_package
import pytest
from npm_package import AXE, CHROMIUM, chromium_program

from cpuwheels.core.errors import DigestMismatchError


def archive(members: dict[str, bytes], mode: str = "w") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that is made like the browser's, and its pin in place of that one."""
    parts = {
        "chromium": b"program",
        "al2023.tar": archive({"lib/libnss3.so": b"nss"}),
        "swiftshader.tar": archive({"libEGL.so": b"egl"}),
        "fonts.tar": archive({"fonts/One.ttf": b"font"}),
        "unknown.tar": b"no archive",
    }
    members = {f"package/bin/{name}.br": brotli.compress(content) for name, content in parts.items()}
    content = archive({"package/package.json": b"{}", **members}, "w:gz")
    (tmp_path / "package.tgz").write_bytes(content)
    place = tmp_path / "pin.json"
    place.write_text(
        json.dumps(
            {
                "name": "@some/chromium",
                "version": "1",
                "url": (tmp_path / "package.tgz").as_uri(),
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "integrity": f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}",
            }
        )
    )
    monkeypatch.setattr(npm_package, "CHROMIUM", place)
    monkeypatch.setenv("CPUWHEELS_CACHE", str(tmp_path / "cache"))
    return place


@pytest.mark.usefixtures("pin")
def test_the_browser_is_unpacked_once_with_what_it_needs(tmp_path: Path) -> None:
    program, variables = chromium_program()
    assert os.access(program, os.X_OK)
    libraries = Path(variables["LD_LIBRARY_PATH"])
    assert sorted(path.name for path in libraries.iterdir()) == ["libEGL.so", "libnss3.so"]
    assert (Path(variables["FONTCONFIG_FILE"]).parent / "fonts/One.ttf").read_bytes() == b"font"
    (tmp_path / "package.tgz").unlink()
    assert chromium_program() == (program, variables)


@pytest.mark.parametrize("digest", ["sha256", "integrity"])
def test_other_bytes_are_refused(pin: Path, tmp_path: Path, digest: str) -> None:
    pin.write_text(json.dumps(json.loads(pin.read_text()) | {digest: "0" * 64}))
    with pytest.raises(DigestMismatchError):
        chromium_program()
    assert not list((tmp_path / "cache").glob("browsers/[!.]*"))


@pytest.mark.parametrize("place", [CHROMIUM, AXE])
def test_a_pin_names_its_version_and_npms_registry(place: Path) -> None:
    asked = json.loads(place.read_text())
    name = asked["name"].rpartition("/")[2]
    assert asked["url"] == f"https://registry.npmjs.org/{asked['name']}/-/{name}-{asked['version']}.tgz"
