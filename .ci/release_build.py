"""Building this project's sdist and wheel: from a clone of the commit, twice, with the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import uv

if TYPE_CHECKING:
    from pathlib import Path

PACKAGED = ("matrix.yaml", "cmake", "csrc", "locks", "measured", "patches", "tests/parity")
"""What pyproject.toml puts into the wheel's folder of the project's files."""

SHARED = "share"
"""What it puts into the environment's folder of this name: the manual page, and the shells' completion."""

UMASKS = (0o022, 0o077)


class ReleaseError(Exception):
    """The release is not as it has to be."""


def clone(root: Path, folder: Path, tag: str = "") -> None:
    """Clone a checkout's commit, with its tags and nothing that is not committed.

    Args:
        root: The checkout.
        folder: Where the clone goes.
        tag: A tag that the clone's commit gets if it is not there; the checkout stays as it is.
    """
    git(root, "clone", "--quiet", "--no-checkout", str(root), str(folder))
    git(folder, "checkout", "--quiet", "--detach", git(root, "rev-parse", "HEAD"))
    if tag and not git(folder, "tag", "--list", tag):
        git(folder, "tag", tag)


def build(folder: Path, output: Path, umask: int = UMASKS[0]) -> tuple[Path, Path]:
    """Build the sdist of a clone and from it the wheel, with the tools of this environment; return both.

    Raises:
        ReleaseError: The build fails, or the wheel is for one kind of machine only.
    """
    command = [uv.find_uv_bin(), "build", "--quiet", "--no-build-isolation", "--python", sys.executable]
    epoch = git(folder, "log", "-1", "--format=%ct")
    run([*command, "-C", "wheel.cmake=false", "--out-dir", output, folder], folder, umask, SOURCE_DATE_EPOCH=epoch)
    (sdist,), (wheel,) = output.glob("*.tar.gz"), output.glob("*.whl")
    if not wheel.name.endswith("-py3-none-any.whl"):
        raise ReleaseError(f"{wheel.name} is not for every machine")
    return sdist, wheel


def build_twice(root: Path, folder: Path, tag: str = "") -> tuple[Path, Path]:
    """Build a checkout's commit in two clones, with different umasks, and return the sdist and the wheel.

    Args:
        root: The checkout.
        folder: Empty, for the clones and what is built; the first clone is `first_clone`.
        tag: As for `clone`.

    Raises:
        ReleaseError: A build fails, or the two differ.
    """
    builds = []
    for umask in UMASKS:
        place = folder / f"clone-{umask:03o}"
        clone(root, place, tag)
        builds.append(build(place, folder / f"out-{umask:03o}", umask))
    require_identical(*builds)
    return builds[0]


def first_clone(folder: Path) -> Path:
    """Return the clone that `build_twice` built what it returns from."""
    return folder / f"clone-{UMASKS[0]:03o}"


def require_identical(first: tuple[Path, Path], second: tuple[Path, Path]) -> None:
    """Compare the files of two builds.

    Raises:
        ReleaseError: Names or bytes differ.
    """
    for one, other in zip(first, second, strict=True):
        if one.name != other.name or one.read_bytes() != other.read_bytes():
            raise ReleaseError(f"two builds differ: {one} and {other}")


def require_files(data: Path, source: Path, names: tuple[str, ...] = PACKAGED) -> None:
    """Check that a folder has files of the project, with the bytes of a clone, and no others.

    Args:
        data: The folder, such as the package's own.
        source: The clone.
        names: Files and folders of the clone, which are in the folder under the same names.

    Raises:
        ReleaseError: One is missing, differs, or is not the clone's.
    """
    wanted = {name: (source / name).read_bytes() for name in git(source, "ls-files", "-z", *names).split("\0") if name}
    there = (path for path in data.rglob("*") if path.is_file() and path.suffix != ".pyc")
    found = {path.relative_to(data).as_posix(): path.read_bytes() for path in there}
    if wrong := sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)):
        raise ReleaseError(f"the wheel has not the project's files: {', '.join(wrong)}")


def run(command: list[str | Path], cwd: Path, umask: int = -1, **variables: str) -> str:
    """Run a command and return what it printed.

    Raises:
        ReleaseError: It fails.
    """
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | variables,
        umask=umask,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
