"""Who made a release from which commit: statements about its sdist and wheel, made from the checkout, and signed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from release_build import ReleaseError, git, run

from cpuwheels.attestation.keys import make_key
from cpuwheels.attestation.own_release import release_statement
from cpuwheels.attestation.sign import Signing, platform_of, sign_statement
from cpuwheels.core.digests import file_digest
from cpuwheels.pipeline.slsa import Platform

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SUMS = "SHA256SUMS"


def write_sums(folder: Path, files: list[Path]) -> Path:
    """Write the digests of files into their folder, as `sha256sum --check` reads them."""
    sums = folder / SUMS
    sums.write_text("".join(f"{file_digest(path)}  {path.name}\n" for path in files), encoding="utf-8")
    return sums


def summed(folder: Path, version: str) -> list[Path]:
    """Return the sdist and the wheel of a release, after a look at their digests.

    Args:
        folder: Has them and their digests.
        version: Of the release.

    Raises:
        ReleaseError: One is missing, is of another version, or has another digest; or there are others.
    """
    names = [f"cpuwheels-{version}.tar.gz", f"cpuwheels-{version}-py3-none-any.whl"]
    there = sorted(path.name for pattern in ("*.tar.gz", "*.whl") for path in folder.glob(pattern))
    if there != sorted(names):
        raise ReleaseError(f"{folder} has {', '.join(there) or 'no sdist or wheel'}; wanted: {', '.join(names)}")
    wanted = "".join(f"{file_digest(folder / name)}  {name}\n" for name in names)
    if (folder / SUMS).read_text(encoding="utf-8") != wanted:
        raise ReleaseError(f"{folder / SUMS} has other digests than the files next to it")
    return [folder / name for name in names]


def sign_files(
    root: Path, files: list[Path], version: str, signing: Signing, environ: Mapping[str, str] = os.environ
) -> list[Path]:
    """Sign how files were made, from what the checkout says, and return what was written next to them.

    Args:
        root: The checkout of the commit.
        files: Sdist and wheel.
        version: Of the release.
        signing: How.
        environ: Tells on which platform this runs.

    Raises:
        CpuwheelsError: The key or the identity does not sign.
    """
    repository = ""
    if environ.get("GITHUB_ACTIONS") == "true":
        repository = f"{environ['GITHUB_SERVER_URL']}/{environ['GITHUB_REPOSITORY']}"
    written = []
    for path in files:
        statement = release_statement(
            path.name,
            file_digest(path),
            version=version,
            commit=git(root, "rev-parse", "HEAD"),
            tools=file_digest(root / "locks" / "dev.txt"),
            repository=repository,
            platform=platform_of(environ) if signing.keyless else Platform(),
        )
        written += sign_statement(path, statement.render(), signing)
    return written


def try_signing(root: Path, files: list[Path], version: str, folder: Path) -> None:
    """Sign copies of files with a key of the moment, and verify them as anybody would.

    Args:
        root: The checkout of the commit.
        files: Sdist and wheel.
        version: Of the release.
        folder: For the copies and the key.

    Raises:
        ReleaseError: A signature does not verify, or verifies for another file.
    """
    folder.mkdir()
    make_key(folder / "key")
    copies = [folder / path.name for path in files]
    for path, copy in zip(files, copies, strict=True):
        copy.write_bytes(path.read_bytes())
    sign_files(root, copies, version, Signing(key=str(folder / "key")))
    for copy in copies:
        verify = [sys.executable, "-m", "cpuwheels", "verify-provenance", copy, "--key", folder / "key.pub"]
        printed = run(verify, folder)
        if (wanted := f"version {version}") not in printed or git(root, "rev-parse", "HEAD") not in printed:
            raise ReleaseError(f"what was signed does not name {wanted} and the commit:\n{printed}")
        copy.write_bytes(copy.read_bytes() + b"\0")
        try:
            run(verify, folder)
        except ReleaseError:
            continue
        raise ReleaseError(f"the signature of {copy.name} verifies for another file")
