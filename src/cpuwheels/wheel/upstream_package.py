"""What upstream says its package is: metadata and package files, from the source's own ``setup.py``.

Upstream computes both in code (version label, requirements per device, package data), and they change from
commit to commit, so they are asked for and never copied here: the metadata through the PEP 517 hook, the
files through setuptools' ``build_py``. Neither builds an extension.
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from cpuwheels.core.digests import make_key, tree_files, tree_names
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import CommandError, WheelError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.process import run
from cpuwheels.sandbox.collect import require_plain
from cpuwheels.sandbox.prepare import get_sandbox
from cpuwheels.sandbox.steps import setup_py
from cpuwheels.wheel.core_metadata import Project, read_project
from cpuwheels.wheel.placeholder_version import placeholder_for, with_version
from cpuwheels.wheel.setup_py_cache import Answers, Notes, SetupPyCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.store import Store
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.sandbox.confine import Sandbox

_PROBE = Path(__file__).parent / "resources" / "setup_py_probe.py"
_LEFT_OUT_PARTS = {".git", "__pycache__"}
_LEFT_OUT = shutil.ignore_patterns(*_LEFT_OUT_PARTS, "*.pyc")


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
    asked = {"VLLM_TARGET_DEVICE": device, "SETUPTOOLS_SCM_PRETEND_VERSION": version}
    kept = SetupPyCache(source, make_key(environment=environment.key(), asked=asked), store, names)
    with storage_errors(work), log.open("a", encoding="utf-8") as stream:
        found = kept.find(work / "modes")
        if found is not None:
            stream.write(f"setup.py would say what {found.metadata.parent} has of it\n")
            return found
    python = environment.python.absolute()
    step = setup_py(python, [python.parent.parent, environment.torch_folder], _PROBE, work)

    def probe(answered: Path) -> None:
        # -P: the probe's own folder holds modules of ours.
        env = closed_environment(asked, path_first=[python.parent])
        confined = sandbox.confine(step, [python, "-P", _PROBE, answered], env, log.parent)
        run(confined.argv, log=log, env=confined.env)
        require_plain(answered, step.name)

    return _ask(source, kept, probe, work, log)


def _ask(source: Path, kept: SetupPyCache, probe: Callable[[Path], None], work: Path, log: Path) -> Answers:
    copy, answered = work / "source", work / "answers"
    with storage_errors(work):
        (answered / "metadata").mkdir(parents=True)
        shutil.copytree(source, copy, symlinks=True, ignore=_LEFT_OUT)
        _list_files(copy)
    try:
        probe(answered)
    except CommandError as error:
        raise WheelError(
            "the source's setup.py does not give its metadata and package files",
            where=source / "setup.py",
            log=log,
            output=error.output,
            next_step="read the log; a missing module belongs into the locked build environment, and neither the "
            "network nor other files of this machine are there for it",
        ) from error
    packages = answered / "packages"
    answers = Answers(answered / "metadata", {name: packages / name for name in tree_names(packages)})
    notes = [Notes.model_validate_json((answered / f"{name}.json").read_bytes()) for name in ("metadata", "packages")]
    reason = kept.keep(answers, copy, notes)
    with storage_errors(log.parent), log.open("a", encoding="utf-8") as stream:
        stream.write(f"the answers were {f'not kept: {reason}' if reason else 'kept'}\n")
    return answers


def _names(source: Path) -> list[str]:
    """Return the names of a source's files that are in a private copy of it."""
    return [
        name for name in tree_names(source) if not _LEFT_OUT_PARTS.intersection(name.split("/")) and name[-4:] != ".pyc"
    ]


def _list_files(copy: Path) -> None:
    """Give a tree that is not an sdist the list of files that an sdist of it would bring along.

    setuptools takes package data from that list; without it, only what ``package_data`` names would be
    packaged, and a commit's wheel would miss files that the release's wheel has.
    """
    table = tomllib.loads((copy / "pyproject.toml").read_text(encoding="utf-8"))
    listing = copy / f"{table['project']['name'].replace('-', '_')}.egg-info" / "SOURCES.txt"
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
