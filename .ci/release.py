"""A release of this project: an sdist and a wheel, checked, in dist/release/.

    python .ci/release.py [--dev]

The commit has to be clean and tagged v<version>, and CHANGELOG.md needs a dated section of that version. `--dev` takes
a commit without a tag: the version is a development version, and the section is "Unreleased". The wheel is for every
machine (py3-none-any): it has no compiled file, since a build compiles the native helpers with the toolchain that it
prepares. Sdist and wheel are built twice, from two clones, and have to have the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import uv

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "dist" / "release"
PACKAGED = ("matrix.yaml", "cmake", "csrc", "locks", "measured", "patches", "tests/parity")
"""What pyproject.toml puts into the wheel's folder of the project's files."""

DATED = re.compile(r" - \d{4}-\d{2}-\d{2}")
UMASKS = (0o022, 0o077)
CHECKOUT_ERROR = 50


class ReleaseError(Exception):
    """The release is not as it has to be."""


def main(words: list[str]) -> int:
    """Make a release and print where it is; return the exit code."""
    parser = argparse.ArgumentParser(allow_abbrev=False, usage=__doc__)
    parser.add_argument("--dev", action="store_true")
    chosen = parser.parse_args(words)
    try:
        for path in release(ROOT, OUTPUT, dev=chosen.dev):
            print(path)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def release(root: Path, output: Path, *, dev: bool) -> list[Path]:
    """Build a checkout's commit twice, check everything, and return the files.

    Args:
        root: The checkout.
        output: Where sdist, wheel and their digests are written; it is emptied first.
        dev: Whether the commit has no tag.

    Raises:
        ReleaseError: Something is not as it has to be.
    """
    if changes := _git(root, "status", "--porcelain"):
        raise ReleaseError(f"files differ from the commit; commit them first:\n{changes}")
    version = "" if dev else tagged_version(root)
    check_changelog((root / "CHANGELOG.md").read_text(encoding="utf-8"), version or "Unreleased", dated=not dev)
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        builds = []
        for umask in UMASKS:
            folder = Path(name) / f"clone-{umask:03o}"
            clone(root, folder)
            builds.append(build(folder, Path(name) / f"out-{umask:03o}", umask))
        require_identical(*builds)
        sdist, wheel = builds[0]
        found = wheel.name.split("-")[1]
        if version and found != version:
            raise ReleaseError(f"the tag is v{version}, but the version that the build finds is {found}")
        _run([sys.executable, "-m", "twine", "--no-color", "check", "--strict", sdist, wheel], Path(name))
        smoke_test(wheel, found, Path(name) / f"clone-{UMASKS[0]:03o}", Path(name) / "installed")
        return _put(output, [sdist, wheel])


def tagged_version(root: Path) -> str:
    """Return the version that the tag of a checkout's commit names.

    Raises:
        ReleaseError: There is not exactly one such tag.
    """
    tags = _git(root, "tag", "--points-at", "HEAD", "--list", "v*").split()
    if len(tags) != 1:
        have = f"the tags {', '.join(tags)}" if tags else "no tag"
        raise ReleaseError(f"the commit has {have}; a release needs one, v<version> (or --dev)")
    return tags[0].removeprefix("v")


def check_changelog(text: str, name: str, *, dated: bool) -> None:
    """Check that a section of the changelog is there and says something.

    Args:
        text: The changelog.
        name: The version, or "Unreleased".
        dated: Whether the heading needs a date.

    Raises:
        ReleaseError: It is missing or empty, or has no date.
    """
    sections = re.split(r"^## \[([^\]]+)\](.*)$", text, flags=re.MULTILINE)
    found = {sections[at]: (sections[at + 1], sections[at + 2]) for at in range(1, len(sections), 3)}
    if name not in found:
        raise ReleaseError(f"CHANGELOG.md has no section [{name}]")
    heading, body = found[name]
    if not re.search(r"^- \S", body, re.MULTILINE):
        raise ReleaseError(f"section [{name}] of CHANGELOG.md is empty")
    if dated and not DATED.fullmatch(heading):
        raise ReleaseError(f"section [{name}] of CHANGELOG.md needs its date: ## [{name}] - YYYY-MM-DD")


def clone(root: Path, folder: Path) -> None:
    """Clone a checkout's commit, with its tags and nothing that is not committed."""
    _git(root, "clone", "--quiet", "--no-checkout", str(root), str(folder))
    _git(folder, "checkout", "--quiet", "--detach", _git(root, "rev-parse", "HEAD"))


def build(folder: Path, output: Path, umask: int = UMASKS[0]) -> tuple[Path, Path]:
    """Build the sdist of a clone and from it the wheel, with the tools of this environment; return both.

    Raises:
        ReleaseError: The build fails, or the wheel is for one kind of machine only.
    """
    command = [uv.find_uv_bin(), "build", "--quiet", "--no-build-isolation", "--python", sys.executable]
    epoch = _git(folder, "log", "-1", "--format=%ct")
    _run([*command, "-C", "wheel.cmake=false", "--out-dir", output, folder], folder, umask, SOURCE_DATE_EPOCH=epoch)
    (sdist,), (wheel,) = output.glob("*.tar.gz"), output.glob("*.whl")
    if not wheel.name.endswith("-py3-none-any.whl"):
        raise ReleaseError(f"{wheel.name} is not for every machine")
    return sdist, wheel


def require_identical(first: tuple[Path, Path], second: tuple[Path, Path]) -> None:
    """Compare the files of two builds.

    Raises:
        ReleaseError: Names or bytes differ.
    """
    for one, other in zip(first, second, strict=True):
        if one.name != other.name or one.read_bytes() != other.read_bytes():
            raise ReleaseError(f"two builds differ: {one} and {other}")


def install(wheel: Path, folder: Path, lock: Path) -> Path:
    """Install a wheel and its locked requirements into a new environment and return its command.

    Raises:
        ReleaseError: It cannot be installed, or the lock lacks something that it requires.
    """
    tool = uv.find_uv_bin()
    _run([tool, "venv", "--quiet", "--python", sys.executable, folder], wheel.parent)
    into = [tool, "pip", "install", "--quiet", "--python", folder]
    _run([*into, "--require-hashes", "-r", lock], wheel.parent)
    _run([*into, "--no-deps", wheel], wheel.parent)
    _run([tool, "pip", "check", "--quiet", "--python", folder], wheel.parent)
    return folder / "bin" / "cpuwheels"


def smoke_test(wheel: Path, version: str, source: Path, folder: Path) -> None:
    """Install the wheel where no checkout is, compare the project's files in it, and run commands.

    Args:
        wheel: The wheel.
        version: Its version.
        source: The clone that it was built from.
        folder: For an environment and a working folder.

    Raises:
        ReleaseError: A file is missing or other than the clone's, or a command does not do what it should.
    """
    command = install(wheel, folder / "venv", source / "locks" / "run.txt")
    (data,) = (folder / "venv" / "lib").glob("python*/site-packages/cpuwheels/data")
    require_files(data, source)
    work = folder / "work"
    work.mkdir()
    answers = {
        ("--version",): (0, f"cpuwheels {version}\n"),
        ("--help",): (0, "Usage: cpuwheels"),
        ("matrix",): (0, "x86: "),
        ("lock",): (CHECKOUT_ERROR, "in a checkout"),
    }
    for words, (code, text) in answers.items():
        done = subprocess.run([command, *words], cwd=work, capture_output=True, text=True, check=False)
        if done.returncode != code or text not in done.stdout + done.stderr:
            raise ReleaseError(
                f"cpuwheels {' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
            )
    require_files(data, source)


def require_files(data: Path, source: Path) -> None:
    """Check that a package has the project's files, with the bytes of a clone, and no others.

    Raises:
        ReleaseError: It has not.
    """
    wanted = {
        name: (source / name).read_bytes() for name in _git(source, "ls-files", "-z", *PACKAGED).split("\0") if name
    }
    there = (path for path in data.rglob("*") if path.is_file() and path.suffix != ".pyc")
    found = {path.relative_to(data).as_posix(): path.read_bytes() for path in there}
    if wrong := sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)):
        raise ReleaseError(f"the wheel has not the project's files: {', '.join(wrong)}")


def _put(output: Path, files: list[Path]) -> list[Path]:
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    placed = [Path(shutil.copy(path, output)) for path in files]
    sums = output / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in placed))
    return [*placed, sums]


def _run(command: list[str | Path], cwd: Path, umask: int = -1, **variables: str) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | variables,
        umask=umask,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
