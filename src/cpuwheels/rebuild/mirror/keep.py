"""``nox -s mirror``: all that some wheels are built from, brought into a folder; what is there is not fetched again."""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from filelock import FileLock

from cpuwheels.attestation.files import ENVELOPE, beside
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.paths import MATRIX
from cpuwheels.core.errors import CpuwheelsError, MirrorError
from cpuwheels.core.filesystem import make_folders, storage_errors, write_atomic
from cpuwheels.core.store import Store
from cpuwheels.fetch.debian.mirrors import mirrors as debian_mirrors
from cpuwheels.fetch.git_archive import repositories_of
from cpuwheels.pipeline.slsa import SUFFIX
from cpuwheels.rebuild.mirror.clones import keep_commit, keep_program
from cpuwheels.rebuild.mirror.fetching import Fetcher, runs_here
from cpuwheels.rebuild.mirror.manifest import MANIFEST, PAGES, Manifest, MirroredWheel, read_manifest
from cpuwheels.rebuild.mirror.readme import README, readme_text
from cpuwheels.rebuild.mirror.use import variable_of
from cpuwheels.rebuild.mirror.wanted import locked_packages, wanted_commits, wanted_files
from cpuwheels.rebuild.preparation import prepare

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.config.matrix import Matrix, Target
    from cpuwheels.config.paths import Paths
    from cpuwheels.core.console import Reporter
    from cpuwheels.rebuild.mirror.manifest import MirroredClone, MirroredFile
    from cpuwheels.rebuild.preparation import Prepared, WheelChoice

_LOCK = ".lock"


def keep_wheels(
    paths: Paths, matrix: Matrix, target: Target, folder: Path, choices: Sequence[WheelChoice], reporter: Reporter
) -> Manifest:
    """Keep all that some wheels are built from, and return what the mirror has then.

    Args:
        paths: Folders to read.
        matrix: The configuration of this version: which repositories are trusted.
        target: Which wheel is meant, where an index has several.
        folder: The mirror; made.
        choices: The wheels.
        reporter: Told of every step.

    Raises:
        MirrorError: Something that a wheel was made from cannot be had.
        CpuwheelsError: A step's own error.
    """
    store = Store(paths.cache)
    with storage_errors(folder):
        make_folders(folder)
    with FileLock(folder / _LOCK):
        manifest = read_manifest(folder) if (folder / MANIFEST).exists() else Manifest()
        for choice in choices:
            with store.scratch("mirror") as base:
                given = prepare(paths, matrix, target, choice, base, store=store, reporter=reporter)
                with reporter.stage("files", "what it is built from, by digest"):
                    manifest = manifest.merged(_kept(given, folder, manifest, store, reporter))
            # After each wheel: what follows may fail, or be stopped.
            with storage_errors(folder):
                _write_pages(folder, manifest)
                write_atomic(folder / README, readme_text(manifest))
                write_atomic(folder / MANIFEST, manifest.model_dump_json(indent=1, exclude_none=True) + "\n")
    return manifest


def _kept(given: Prepared, folder: Path, known: Manifest, store: Store, reporter: Reporter) -> Manifest:
    plan, root = given.found.plan, given.program.root
    matrix = load_matrix(given.matrix or root / MATRIX)
    files: list[MirroredFile] = []
    missing: list[str] = []
    fetcher = Fetcher(folder, store, reporter, tuple(matrix.torch.values()), known.files)
    hosts = debian_mirrors(matrix.debian.mirrors, os.environ)
    wanted = [
        one
        for one in wanted_files(plan, root, matrix, hosts)
        if one.needed or not one.name.endswith(".whl") or runs_here(one.name)
    ]
    for one in wanted:
        try:
            files.append(fetcher.keep(one))
        except CpuwheelsError as error:
            if one.needed:
                raise _lacking(given, error) from error
            missing.append(f"{one.stage} {one.name}: {error.what}")
    for package in locked_packages(root):
        files += fetcher.keep_package(package)
    clones = _clones(given, folder, matrix, missing)
    clones.append(keep_program(folder, given.program.repository, given.program.commit))
    for line in missing:
        reporter.announce(f"not kept, as the wheel was not made from it: {line}")
    published = given.published
    files.append(fetcher.keep_copy(published.wheel, published.sha256, "wheel"))
    _keep_about(given, folder)
    return Manifest(
        files=tuple(files),
        clones=tuple(clones),
        wheels=(
            MirroredWheel(
                name=published.wheel.name,
                sha256=published.sha256,
                target=plan.asked.target,
                source=plan.asked.source,
                program=given.program.commit,
                files=tuple(sorted({one.sha256 for one in files})),
                missing=tuple(missing),
            ),
        ),
    )


def _clones(given: Prepared, folder: Path, matrix: Matrix, missing: list[str]) -> list[MirroredClone]:
    found = []
    for one in wanted_commits(given.found.plan, matrix):
        variable = variable_of(one.kind)
        places = repositories_of(one.repositories, variable, os.environ)
        try:
            found.append(keep_commit(folder, one, places))
        except MirrorError as error:
            if one.needed:
                raise _lacking(given, error) from error
            missing.append(error.what)
    return found


def _lacking(given: Prepared, error: CpuwheelsError) -> MirrorError:
    return MirrorError(
        f"{given.published.wheel.name} needs what cannot be had: {error.what}",
        where=error.where,
        output=error.output,
        next_step=error.next_step,
    )


def _keep_about(given: Prepared, folder: Path) -> None:
    """Write what lay next to a wheel next to its copy: how it was built, and who signed that."""
    published = given.published
    wheel = folder / "files" / published.sha256 / published.wheel.name
    about = published.about
    with storage_errors(folder):
        for suffix, content in ((SUFFIX, about.statement), (ENVELOPE, about.envelope)):
            if content is not None:
                write_atomic(beside(wheel, suffix), content)
        for name, content in about.attestations.items():
            write_atomic(wheel.with_name(name), content)


def _write_pages(folder: Path, manifest: Manifest) -> None:
    """Write the index of Python packages (PEP 503) for package managers."""
    projects: dict[str, list[MirroredFile]] = {}
    for one in manifest.files:
        if one.project:
            projects.setdefault(one.project, []).append(one)
    for project, files in projects.items():
        links = "".join(
            f'<a href="../../{escape(_quoted(one))}#sha256={one.sha256}">{escape(one.name)}</a><br>\n' for one in files
        )
        _write_page(folder / PAGES / project, links)
    _write_page(folder / PAGES, "".join(f'<a href="{one}/">{one}</a><br>\n' for one in sorted(projects)))


def _quoted(one: MirroredFile) -> str:
    return quote(one.place)


def _write_page(folder: Path, links: str) -> None:
    write_atomic(folder / "index.html", f"<!DOCTYPE html>\n<html><body>\n{links}</body></html>\n")
