"""Python packages as layers: installed by uv into a folder, made the same on every machine, compiled to bytecode."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError, ImageError
from cpuwheels.core.process import run
from cpuwheels.fetch.uv import install_cached
from cpuwheels.image.layers import Member, folder_members

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_LOCAL = "usr/local"
_OF_THIS_INSTALLATION = ("direct_url.json", "uv_cache.json", "REQUESTED")
"""What uv notes of where a package came from and when."""

_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)\s*(?:==|@).*(?:\n[ \t].*)*\n?", re.MULTILINE)
_COMPILE_ALL = Path(__file__).with_name("resources") / "compile_all.py"
_LOADERS = ("lib64/ld-linux-*.so.*", "lib/ld-linux-*.so.*", "lib/ld64.so.*", "usr/lib64/ld-linux-*.so.*")


@dataclass(frozen=True)
class ImagePython:
    """The Python of an image's base.

    Attributes:
        command: What starts it on this machine.
        env: Its variables.
        version: Such as ``3.11``.
        key: Names its bytes.
    """

    command: tuple[str | Path, ...]
    env: Mapping[str, str]
    version: str
    key: str

    @property
    def packages(self) -> str:
        """Where it looks for packages that are not Debian's, in the image."""
        return f"{_LOCAL}/lib/python{self.version}/dist-packages"

    def compile(self, folder: Path, place: str, log: Path) -> None:
        """Write the bytecode of all Python files below a folder.

        Args:
            folder: The folder.
            place: Where it will be in the image, without a slash in front.
            log: The interpreter's output.

        Raises:
            ImageError: The interpreter fails.
        """
        env = closed_environment(self.env)
        try:
            run([*self.command, "-B", "-S", "-s", _COMPILE_ALL, folder, f"/{place}"], log=log, env=env)
        except CommandError as error:
            raise ImageError(
                "the Python of the image's base does not run here",
                where=str(self.command[-1]),
                log=log,
                output=error.output,
                next_step="a library that it needs is left out in the base's lock",
            ) from error


def unpacked_python(root: Path, version: str, key: str) -> ImagePython:
    """Return the Python of an unpacked base, run by the base's own loader.

    Args:
        root: The base.
        version: Such as ``3.11``.
        key: Of the base's content.

    Raises:
        ImageError: The base has no such Python or no loader.
    """
    program = root / "usr" / "bin" / f"python{version}"
    loaders = sorted({path.resolve() for pattern in _LOADERS for path in root.glob(pattern)})
    if not program.is_file() or not loaders:
        raise ImageError(
            f"the base has no {'loader' if program.is_file() else f'Python {version}'}",
            where=root,
            next_step="correct the lock of the target's image and run `nox -s lock`",
        )
    folders = [root / below for below in ("lib", "usr/lib")]
    libraries = ":".join(str(path) for folder in folders for path in sorted(folder.glob("*-linux-gnu")))
    command = (loaders[0], "--library-path", libraries, program)
    return ImagePython(command, {"PYTHONHOME": str(root / "usr")}, version, key)


def emulated_python(emulator: Path, cpu: str, root: Path, version: str, key: str) -> ImagePython:
    """Return the Python of an unpacked base of another machine.

    Args:
        emulator: QEMU's program for that machine.
        cpu: As QEMU names it.
        root: The base.
        version: Such as ``3.14``.
        key: Of the base's content.
    """
    command = (emulator, "-cpu", cpu, "-L", root, root / "usr" / "bin" / f"python{version}")
    return ImagePython(command, {"PYTHONHOME": str(root / "usr")}, version, key)


def install(
    what: Sequence[str | Path], python: ImagePython, interpreter: Path, work: Path, log: Path, env: Mapping[str, str]
) -> dict[str, Member]:
    """Install packages into a folder and return the members of their layer, bytecode included.

    Args:
        what: Arguments of ``uv pip install`` that name packages and where they are found; wheels only, no dependencies.
        python: The image's Python.
        interpreter: A Python of the same version that runs here, for uv.
        work: Empty folder, which the members name files of.
        log: uv's output.
        env: uv's variables.

    Raises:
        CommandError: Something cannot be installed.
        ImageError: The image's Python does not run.
    """
    prefix = work / "prefix"
    options: list[str | Path] = ["--no-deps", "--only-binary", ":all:", "--link-mode", "copy", "--no-compile"]
    install_cached(["--python", interpreter, "--prefix", prefix, *options, *what], env, log)
    site = next((prefix / "lib").glob("python3*/site-packages"))
    for info in sorted(site.glob("*.dist-info")):
        settle(info, prefix, f"/usr/bin/python{python.version}")
    python.compile(site, python.packages, log)
    inside = site.relative_to(prefix).as_posix()
    members = {}
    for path, member in folder_members(prefix).items():
        below = path.removeprefix(f"{inside}/")
        members[f"{_LOCAL}/{path}" if below == path else f"{python.packages}/{below}"] = member
    for name in [path for path in members if path.endswith("/.lock")]:
        del members[name]
    return members


def settle(info: Path, prefix: Path, interpreter: str) -> None:
    """Make an installed package the same wherever and whenever it was installed, and its RECORD fit.

    Args:
        info: Its ``.dist-info`` folder.
        prefix: What it was installed into.
        interpreter: What its scripts are to be run by.
    """
    for name in _OF_THIS_INSTALLATION:
        (info / name).unlink(missing_ok=True)
    rows = []
    for row in csv.reader(io.StringIO((info / "RECORD").read_text(encoding="utf-8"))):
        path = (info.parent / row[0]).resolve()
        if not path.exists():
            continue
        if path.parent == prefix.resolve() / "bin" and (fixed := with_interpreter(path.read_bytes(), interpreter)):
            path.write_bytes(fixed)
            digest = base64.urlsafe_b64encode(hashlib.sha256(fixed).digest()).rstrip(b"=").decode()
            row = [row[0], f"sha256={digest}", str(len(fixed))]  # noqa: PLW2901
        rows.append(row)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(sorted(rows))
    (info / "RECORD").write_text(text.getvalue(), encoding="utf-8")


def with_interpreter(script: bytes, interpreter: str) -> bytes | None:
    """Return a script that is run by another interpreter; None if it is no Python script.

    An installer writes ``#!/bin/sh`` and two lines of Python that a shell reads, if the interpreter's path is too long
    or has blanks.
    """
    lines = script.split(b"\n")
    if lines[0] == b"#!/bin/sh" and len(lines) > 2 and lines[1].startswith(b"'''exec'"):  # noqa: PLR2004
        rest = lines[3:]
    elif lines[0].startswith(b"#!") and b"python" in lines[0]:
        rest = lines[1:]
    else:
        return None
    return b"\n".join([b"#!" + interpreter.encode(), *rest])


def without(lock: str, names: Collection[str]) -> str:
    """Return a requirements file without some packages.

    Args:
        lock: With one version and hashes of each package.
        names: Those to leave out.
    """
    left_out = {canonicalize_name(name) for name in names}
    return _REQUIREMENT.sub(lambda found: "" if canonicalize_name(found["name"]) in left_out else found[0], lock)
