"""Doing one job: its command as a process of its own, as a user would run it, with its memory cap and sandbox."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.credentials import without_credentials
from cpuwheels.core.digests import KEY_LENGTH, file_digest
from cpuwheels.core.entry_links import link_entries
from cpuwheels.core.errors import CpuwheelsError, FarmError
from cpuwheels.core.filesystem import make_folders, remove_tree, storage_errors
from cpuwheels.core.process import run
from cpuwheels.core.sealed_entry import MOVABLE
from cpuwheels.farm.carried import carried_kernels, kernel_options
from cpuwheels.farm.done import NOT_RUN, Done, put_files, sha256_of, with_files
from cpuwheels.farm.job import project_identity
from cpuwheels.farm.site import FARM_VARIABLE, KEYS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cpuwheels.farm.job import Job
    from cpuwheels.farm.site import Site

LOGS = {
    "kernels": "farm-compile.log",
    "wheel": "farm-compile.log",
    "parity": "farm-parity.log",
    "serve": "farm-serve.log",
    "rebuild": "farm-compile.log",
}
"""Named as the steps that may take as long (`core.step_limits`)."""

RESULT = "rebuilt"
"""Folder of a rebuild's result, in that of the job."""

_KEPT_LINES = 40


def perform(job: Job, site: Site, given: Sequence[Done] = ()) -> Done:
    """Do a job, and return what came of it, also if it fails.

    Args:
        job: The job.
        site: Where.
        given: Results of the jobs before it.

    Raises:
        FarmError: This machine has another version of the program or of the project.
    """
    began = time.monotonic()
    done = Done(job.key, by=site.name)
    # A wheel whose kernels another job could not make tries by itself: it may have others than was predicted.
    if job.kind != "wheel" and (failed := next((one for one in given if one.code), None)):
        return replace(done, code=NOT_RUN, output="a job before it failed" if failed.code != NOT_RUN else failed.output)
    if job.identity and job.identity != project_identity(site.paths):
        raise FarmError(
            f"{site.name} has another version of cpuwheels, of matrix.yaml, patches or locks",
            where=str(job),
            next_step="install the same commit on every machine of the farm",
        )
    folder = site.folder(job)
    try:
        with storage_errors(folder):
            if site.carries:
                remove_tree(folder)
            make_folders(folder)
            if job.alone:  # what comes from outside is compared with its digest, whoever fetched it
                link_entries(site.paths.cache, MOVABLE, site.places(job).cache)
            done = _STEPS[job.kind](job, site, given, done)
    except CpuwheelsError as error:
        done = replace(done, code=error.exit_code, output=str(error))
    finally:
        if site.carries:
            remove_tree(folder)
    return replace(done, seconds=time.monotonic() - began)


def _kernels(job: Job, site: Site, _given: Sequence[Done], done: Done) -> Done:
    done, lines = _command(job, site, done, ["build", job.target, "--source", job.source, "--kernels-only"], site.store)
    if done.code:
        return done
    kernels, audit, *_ = [*(line for line in lines if len(line) == KEY_LENGTH and line.isalnum()), "", ""]
    done = replace(done, kernels=kernels, audit=audit)
    return carried_kernels(done, site, site.places(job), site.folder(job)) if site.carries else done


def _wheel(job: Job, site: Site, given: Sequence[Done], done: Done) -> Done:
    store = () if job.alone else kernel_options(given, site, site.places(job), site.folder(job)) or site.store
    done, lines = _command(job, site, done, ["build", job.target, "--source", job.source, "--no-summary"], store)
    return done if done.code else _result(job, site, done, _built(lines))


def _parity(job: Job, site: Site, given: Sequence[Done], done: Done) -> Done:
    return _test(job, site, given, done, "parity")


def _serve(job: Job, site: Site, given: Sequence[Done], done: Done) -> Done:
    return _test(job, site, given, done, "serve")


def _rebuild(job: Job, site: Site, _given: Sequence[Done], done: Done) -> Done:
    """Rebuild a published wheel; other bytes are a result, too."""
    out = site.folder(job) / RESULT
    words = ["rebuild", job.source, "--out", str(out), *site.share_options()]
    done, _ = _command(job, site, done, words, (), builds=False)
    return with_files(replace(done, folder=RESULT), out) if out.is_dir() else done


_STEPS: dict[str, Callable[[Job, Site, Sequence[Done], Done], Done]] = {
    "kernels": _kernels,
    "wheel": _wheel,
    "parity": _parity,
    "serve": _serve,
    "rebuild": _rebuild,
}


def _test(job: Job, site: Site, given: Sequence[Done], done: Done, command: str) -> Done:
    (wheel,) = given
    folder = site.places(job).dist / wheel.folder
    if site.carries:
        put_files(wheel, folder)
    path = folder / wheel.wheel
    done, _ = _command(job, site, done, [command, job.target, "--wheel", str(path)], (), builds=False)
    if done.code and not any(folder.glob(f"{command}.json")):
        return done
    return _result(job, site, done, path)  # a wheel that failed a test goes home with its report


def _command(
    job: Job, site: Site, done: Done, words: list[str], store: Sequence[str], *, builds: bool = True
) -> tuple[Done, list[str]]:
    """Run a command of this program; return what came of it, and the lines that it printed."""
    lines: list[str] = []
    own = site.build_options() if builds else []
    argv = [*site.program, *site.places(job).as_arguments(), *words, *job.options, *own, *store]
    log = site.folder(job) / LOGS[job.kind]
    ended = run(argv, log=log, env=_environment(), on_line=lines.append, check=False)
    tail = "\n".join(lines[-_KEPT_LINES:]) if ended.returncode else ""
    code = ended.returncode if ended.returncode >= 0 else FarmError.exit_code
    return replace(done, code=code, output=tail), lines


def _environment() -> dict[str, str]:
    """Return the variables of a job's command: no credentials, and nothing with which it would send jobs itself."""
    given = without_credentials(os.environ)
    return {name: value for name, value in given.items() if name not in {FARM_VARIABLE, KEYS_VARIABLE}}


def _built(lines: Sequence[str]) -> Path:
    """Return the wheel that a build names as its result.

    Raises:
        FarmError: It names none.
    """
    for line in reversed(lines):
        if line.endswith(".whl") and (path := Path(line)).is_file():
            return path
    raise FarmError("the build names no wheel", where="its output", next_step="read what its command printed")


def _result(job: Job, site: Site, done: Done, wheel: Path) -> Done:
    folder = wheel.parent.relative_to(site.places(job).dist).as_posix()
    done = replace(done, folder=folder, wheel=wheel.name)
    if site.carries:
        done = with_files(done, wheel.parent)
    return replace(done, sha256=sha256_of(done, wheel.name) or file_digest(wheel))
