"""Releases of this project: an sdist and a wheel, checked, in dist/release/.

    nox -s release                                   a tagged commit: all checks, and its files
    nox -s release -- --dev                          a commit without a tag: a development version
    nox -s release -- --check                        all checks, and no files; without a tag for the release that
                                                     CHANGELOG.md has prepared
    nox -s release -- --prepare 0.1.0 [--date DATE]  CHANGELOG.md and CITATION.cff made ready for a tag
    nox -s release -- --sign --key FILE              how the files in dist/release/ were made, signed; in CI --keyless

docs/releases.md describes it. The wheel is for every machine (py3-none-any): it has no compiled file, since a build
compiles the native helpers with the toolchain that it prepares.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from datetime import UTC, date, datetime
from pathlib import Path

from changelog import ChangelogError, prepared, section
from release_build import ReleaseError, git
from release_checks import CITATION, Release, next_version, run_checks, tagged_version
from release_provenance import sign_files, summed, write_sums

from cpuwheels.attestation.sign import Signing
from cpuwheels.core.errors import CpuwheelsError

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "dist" / "release"
NOTES = "NOTES.md"


def main(words: list[str]) -> int:
    """Do what the options say; return the exit code."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dev", action="store_true")
    what.add_argument("--check", action="store_true")
    what.add_argument("--prepare", metavar="VERSION")
    what.add_argument("--sign", action="store_true")
    parser.add_argument("--date", type=date.fromisoformat, default=datetime.now(UTC).date())
    parser.add_argument("--key")
    parser.add_argument("--public-key", type=Path)
    parser.add_argument("--keyless", action="store_true")
    parser.add_argument("--trust-config", type=Path)
    chosen = parser.parse_args(words)
    signing = Signing(chosen.key, chosen.public_key, chosen.keyless, chosen.trust_config)
    if bool(signing) != chosen.sign:
        parser.error("--sign needs --key or --keyless, and they need --sign")
    try:
        if chosen.prepare:
            paths = prepare(ROOT, chosen.prepare, chosen.date)
        elif chosen.sign:
            paths = sign(ROOT, OUTPUT, signing)
        elif chosen.check:
            paths = []
            check(ROOT)
        else:
            paths = release(ROOT, OUTPUT, dev=chosen.dev)
    except (ReleaseError, ChangelogError, CpuwheelsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in paths:
        print(path)
    return 0


def release(root: Path, output: Path, *, dev: bool) -> list[Path]:
    """Build a checkout's commit, check everything, and return the files.

    Args:
        root: The checkout.
        output: Where sdist, wheel, their digests and the notes are written; it is emptied first.
        dev: Whether the commit has no tag.

    Raises:
        ReleaseError: Something is not as it has to be.
    """
    version = "" if dev else tagged_version(root)
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        found = Release(root, Path(name), version, is_tagged=not dev)
        _require_passed(found)
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        placed = [Path(shutil.copy(path, output)) for path in found.files]
    files = [*placed, write_sums(output, placed)]
    if version:
        files.append(output / NOTES)
        files[-1].write_text(notes(root, version), encoding="utf-8")
    return files


def check(root: Path) -> None:
    """Check a checkout's commit for the release that it is, or that is prepared, and keep nothing.

    Raises:
        ReleaseError: Something is not as it has to be.
    """
    version, is_tagged = next_version(root)
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        _require_passed(Release(root, Path(name), version, is_tagged))


def _require_passed(found: Release) -> None:
    if failed := run_checks(found):
        raise ReleaseError(f"not passed: {', '.join(failed)}")


def prepare(root: Path, version: str, day: date) -> list[Path]:
    """Make the changelog and the citation of a checkout ready for the tag of a version, and return them.

    Raises:
        ChangelogError: There is nothing to release.
    """
    changes, citation = root / "CHANGELOG.md", root / CITATION
    texts = {
        changes: prepared(changes.read_text(encoding="utf-8"), version, f"{day:%Y-%m-%d}"),
        citation: cited(citation.read_text(encoding="utf-8"), version, f"{day:%Y-%m-%d}"),
    }
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return [*texts]


def cited(text: str, version: str, day: str) -> str:
    """Return CITATION.cff with the version and the day of a release."""
    kept = re.sub(r"^date-released: .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^version: .*\n", f"version: {version}\ndate-released: {day}\n", kept, flags=re.MULTILINE)


def notes(root: Path, version: str) -> str:
    """Return what a release's page says: its section of the changelog."""
    return section((root / "CHANGELOG.md").read_text(encoding="utf-8"), version).body + "\n"


def sign(root: Path, output: Path, signing: Signing) -> list[Path]:
    """Sign how the files of a tagged commit were made, and return what was written next to them.

    Args:
        root: The checkout of the commit, from which the statements are made.
        output: Has the files and their digests.
        signing: How.

    Raises:
        ReleaseError: The commit has no tag, files differ from it, or the files are not those of the tag.
        CpuwheelsError: The key or the identity does not sign.
    """
    version = tagged_version(root)
    if changes := git(root, "status", "--porcelain"):
        raise ReleaseError(f"files differ from the commit, which nothing can be signed for:\n{changes}")
    return sign_files(root, summed(output, version), version, signing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
