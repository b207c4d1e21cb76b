"""What upstream says its package is: metadata and package files, from the source's own ``setup.py``.

Upstream computes both in code (version label, requirements per device, package data), and they change from
commit to commit, so they are asked for and never copied here: the metadata through the PEP 517 hook, the
files through setuptools' ``build_py``. Neither builds an extension.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from packaging.version import Version

from cpuwheels.core.digests import make_key, tree_files, tree_names
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import WheelError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.parse import parse_toml
from cpuwheels.core.plain_file import read_plain
from cpuwheels.sandbox.prepare import get_sandbox
from cpuwheels.sandbox.steps import setup_py
from cpuwheels.wheel.core_metadata import Project, read_project
from cpuwheels.wheel.placeholder_version import placeholder_for, with_version
from cpuwheels.wheel.setup_py_cache import SetupPyCache, insufficiency
from cpuwheels.wheel.setup_py_run import PROBE, ask_setup_py
from cpuwheels.wheel.source_view import view_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.store import Store
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.sandbox.confine import Confined, Sandbox
    from cpuwheels.wheel.setup_py_cache import Answers
    from cpuwheels.wheel.setup_py_run import Asked, Confine
    from cpuwheels.wheel.source_view import SourceView

_LEFT_OUT_PARTS = {".git", "__pycache__"}


@dataclass(frozen=True)
class UpstreamPackage:
    """Upstream's package without its extension modules.

    Attributes:
        project: Its metadata, URL requirements made plain.
        files: Name in the wheel → the package file; only to be read.
        licenses: Folder with the licence files that the metadata names.
    """

    project: Project
    files: Mapping[str, Path]
    licenses: Path


def local_version(version: str, label: str) -> str:
    """Return a version with a local label added, after a dot if it has a local part already."""
    return f"{version}{'.' if '+' in version else '+'}{label}"


def upstream_package(
    context: BuildContext, source: Path, *, version: str, environment: Environment, work: Path, device: str = "cpu"
) -> UpstreamPackage:
    """Ask the source's own ``setup.py`` for metadata and package files, or find what it would say in the store.

    Args:
        context: The run; its store keeps answers.
        source: The prepared (patched) source tree in the store; only read.
        version: Version without the device's label, such as ``0.32.0`` or ``0.32.1.dev5+g0123abc``.
        environment: The build environment.
        work: Emptied, then filled with a private copy of the source and the results.
        device: Upstream's name of the device, which is also the version's label.

    Raises:
        WheelError: ``setup.py`` fails, or gives another version.
        StoreError: ``work`` cannot be written.
    """
    work, store, log = work.absolute(), context.store, context.logs / "metadata.log"
    with storage_errors(work):
        remove_tree(work)
        work.mkdir(parents=True)
    ask = partial(
        _answers,
        source,
        names=_names(source),
        device=device,
        environment=environment,
        store=store,
        log=log,
        sandbox=get_sandbox(context),
    )
    stated = placeholder_for(version)
    answers = ask(version=stated, work=work / "asked")
    if stated != version:
        with storage_errors(work):
            replaced = with_version(answers, version, device, source=source, work=work / "stated")
        answers = replaced or ask(version=version, work=work / "asked again")
    dist_info = _only(answers.metadata.glob("*.dist-info"), source)
    entry_points = dist_info / "entry_points.txt"
    project = read_project(
        (dist_info / "METADATA").read_bytes(),
        entry_points.read_text(encoding="utf-8") if entry_points.is_file() else "",
    )
    expected = local_version(version, device)
    if Version(project.version) != Version(expected):
        raise WheelError(
            f"the source gives version {project.version}, expected {expected}",
            where=source / "setup.py",
            log=log,
            next_step="see how its get_vllm_version() makes the version",
        )
    return UpstreamPackage(project=project, files=answers.files, licenses=dist_info / "licenses")


def _answers(
    source: Path,
    *,
    version: str,
    names: list[str],
    device: str,
    environment: Environment,
    store: Store,
    work: Path,
    log: Path,
    sandbox: Sandbox,
) -> Answers:
    """Return what ``setup.py`` says where the version is given, from the store or asked now."""
    # It adds the device's label itself, so vllm/_version.py says what upstream's own builds say.
    variables = {"VLLM_TARGET_DEVICE": device, "SETUPTOOLS_SCM_PRETEND_VERSION": version}
    python = environment.python.absolute()
    env = closed_environment(variables, path_first=[python.parent])

    def confine(argv: Sequence[str | Path], place: Path) -> Confined:
        packages = [python.parent.parent, environment.torch_folder]
        return sandbox.confine(setup_py(python, packages, PROBE, place), argv, env, log.parent)

    beside = make_key(environment=environment.key(), asked=variables)
    view = view_of(source, names)
    if not view.is_whole:
        place = work / "view"
        kept = SetupPyCache(view, beside, store)
        if found := _found(kept, place, log):
            return found
        if not kept.is_insufficient():
            try:
                asked = _ask(view, place, python, confine, log)
                reason = insufficiency(view, asked, place / "source")
            except WheelError as error:
                reason = error.what
            _check_unchanged(kept, source, log)
            if not reason:
                return _taken(kept, asked, place, log, against="")
            kept.note_insufficient(reason)
            _write_log(log, f"setup.py has to be shown the whole source: {reason}")
        view = view_of(source, names, whole=True)
    kept = SetupPyCache(view, beside, store)
    if found := _found(kept, work, log):
        return found
    asked = _ask(view, work, python, confine, log)
    _check_unchanged(kept, source, log)
    outside = f"{view.outside} leads out of the source" if view.outside else ""
    return _taken(kept, asked, work, log, against=outside or insufficiency(view, asked, work / "source"))


def _found(kept: SetupPyCache, work: Path, log: Path) -> Answers | None:
    with storage_errors(work):
        found = kept.find(work / "modes")
    if found:
        _write_log(log, f"setup.py would say what {found.metadata.parent} has of it")
    return found


def _ask(view: SourceView, work: Path, python: Path, confine: Confine, log: Path) -> Asked:
    copy = work / "source"
    with storage_errors(work):
        view.lay(copy)
        _list_files(copy)
    return ask_setup_py(copy, work, python=python, confine=confine, source=view.source, log=log)


def _check_unchanged(kept: SetupPyCache, source: Path, log: Path) -> None:
    if not kept.is_unchanged():
        raise WheelError(
            "the source in the store was changed while its setup.py ran",
            where=source,
            log=log,
            next_step="do not trust this source; the store makes its copy again",
        )


def _taken(kept: SetupPyCache, asked: Asked, work: Path, log: Path, *, against: str) -> Answers:
    with storage_errors(work):
        answers = kept.take(asked, work / "modes", keep=not against)
    _write_log(log, f"the answers were {f'not kept: {against}' if against else 'kept'}")
    return answers


def _write_log(log: Path, line: str) -> None:
    with storage_errors(log.parent), log.open("a", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(f"{line}\n")


def _names(source: Path) -> list[str]:
    """Return the names of a source's files that are in a private copy of it."""
    return [
        name for name in tree_names(source) if not _LEFT_OUT_PARTS.intersection(name.split("/")) and name[-4:] != ".pyc"
    ]


_LONGEST = 4 << 20
_PROJECT_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")


def _list_files(copy: Path) -> None:
    """Give a tree that is not an sdist the list of files that an sdist of it would bring along.

    setuptools takes package data from that list; without it, only what ``package_data`` names would be
    packaged, and a commit's wheel would miss files that the release's wheel has.
    """
    path = copy / "pyproject.toml"
    try:
        project = parse_toml(read_plain(path, _LONGEST), path).get("project")
    except OSError as error:
        raise WheelError(f"the source's {path.name} cannot be read: {error.strerror}", where=path) from error
    name = project.get("name") if isinstance(project, dict) else None
    if not isinstance(name, str) or not _PROJECT_NAME.fullmatch(name):
        raise WheelError(f"the source's {path.name} names no project", where=path, next_step="give a whole vLLM source")
    listing = copy / f"{name.replace('-', '_')}.egg-info" / "SOURCES.txt"
    if listing.is_file():
        return
    names = (path.relative_to(copy).as_posix() for path in tree_files(copy) if path.suffix != ".so")
    listing.parent.mkdir(exist_ok=True)
    listing.write_text("\n".join(names) + "\n", encoding="utf-8")


def _only(found: Iterable[Path], source: Path) -> Path:
    paths = sorted(found)
    if len(paths) != 1:
        raise WheelError(f"setup.py wrote {len(paths)} metadata folders, expected one", where=source / "setup.py")
    return paths[0]
