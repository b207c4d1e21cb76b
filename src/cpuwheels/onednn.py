"""oneDNN's sources: the commit that upstream pins, else the alternate, said aloud."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cpuwheels.archives import tarfile
from cpuwheels.download import Pinned, fetch, mirrored
from cpuwheels.errors import CommandError, CpuwheelsError, DownloadError, LockedError, OneDnnError
from cpuwheels.keys import make_key
from cpuwheels.process import closed_environment, run
from cpuwheels.source.unpack import unpack_tar
from cpuwheels.storage import remove_tree, storage_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpuwheels.console import Reporter
    from cpuwheels.model.matrix import OneDnnAlternate, OneDnnPin
    from cpuwheels.store import Store

REPOSITORY_VARIABLE = "CPUWHEELS_ONEDNN_REPO"
_PATIENCE = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=20")
"""Git gives up on a connection that moves less than 1,000 bytes/s for 20 s."""


@dataclass(frozen=True)
class OneDnn:
    """oneDNN's sources in the store; read only.

    Attributes:
        folder: The tree.
        tag: The GIT_TAG upstream asks for.
        version: The commit, or the alternate's version.
        digest: Names the content: the commit, or the archive's sha256.
        kind: Whether it is the pinned commit or an alternate.
    """

    folder: Path
    tag: str
    version: str
    digest: str
    kind: Literal["pinned", "alternate"]


def get_onednn(
    tag: str,
    pin: OneDnnPin,
    mirrors: Sequence[str],
    *,
    store: Store,
    reporter: Reporter,
    logs: Path,
    locked: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> OneDnn:
    """Return oneDNN's sources.

    The commit comes from the store, else from ``CPUWHEELS_ONEDNN_REPO`` (a local clone or a remote), else
    from the pin's repositories. Where none of them can be reached an alternate takes its place.

    Args:
        tag: GIT_TAG in upstream's CMake.
        pin: The commit behind it, repositories and alternates.
        mirrors: Debian mirrors for the alternates.
        store: Where sources are kept.
        reporter: Told of an alternate, aloud.
        logs: Folder for git's log.
        locked: Refuse alternates.
        environ: Where ``CPUWHEELS_ONEDNN_REPO`` is looked up.

    Raises:
        LockedError: Only an alternate can be had and ``locked`` is set.
        OneDnnError: Neither can be had.
    """
    key = commit_key(pin)
    chosen = environ.get(REPOSITORY_VARIABLE)
    repositories = [chosen, *pin.repositories] if chosen else list(pin.repositories)

    def export(folder: Path) -> None:
        try:
            _export_commit(tag, pin.commit, repositories, folder, store, reporter, logs)
        except CommandError as error:
            raise OneDnnError(
                f"oneDNN {tag} cannot be fetched: git does not work here",
                where=error.where,
                output="\n".join(filter(None, (error.what, error.output))),
                log=error.log,
                next_step="install git",
            ) from error

    try:
        folder = store.get("onednn", key, export)
    except OneDnnError as error:
        return _alternate(tag, pin, mirrors, error, store=store, reporter=reporter, locked=locked)
    return OneDnn(folder, tag, pin.commit, pin.commit, "pinned")


def choose_onednn(tags: Sequence[str], pins: Mapping[str, OneDnnPin], machine: str) -> tuple[str, OneDnnPin] | None:
    """Return the pin that upstream uses on a machine, and its GIT_TAG, or None.

    Of several that a source names, one may be for some machines alone; steering checks that CMake asks for it.

    Args:
        tags: GIT_TAGs that a source names.
        pins: The matrix's, by tag.
        machine: As ``platform.machine()`` says on the target.
    """
    known = [(tag, pins[tag]) for tag in tags if tag in pins]
    own = [(tag, pin) for tag, pin in known if machine in pin.machines]
    return next(iter(own or [(tag, pin) for tag, pin in known if not pin.machines]), None)


def commit_key(pin: OneDnnPin) -> str:
    """Return the store's key of the pinned commit's sources."""
    return make_key(git=pin.commit, layout=1)


def _alternate(
    tag: str,
    pin: OneDnnPin,
    mirrors: Sequence[str],
    reason: OneDnnError,
    *,
    store: Store,
    reporter: Reporter,
    locked: bool,
) -> OneDnn:
    if not pin.alternates:
        raise reason
    if locked:
        raise LockedError(
            f"oneDNN {tag} cannot be reached and --locked refuses alternates",
            where=reason.where,
            output=reason.output,
            next_step=f"name a clone in {REPOSITORY_VARIABLE}, or build without --locked",
        ) from reason
    fault: CpuwheelsError = reason
    for alternate in pin.alternates:
        make = partial(_unpack, alternate, mirrors, store, reporter)
        try:
            folder = store.get("onednn", make_key(archive=alternate.sha256, layout=1), make)
        except DownloadError as error:
            fault = error
            continue
        reporter.announce(
            f"oneDNN {tag} ({pin.commit[:12]}) cannot be reached; building with the alternate {alternate.version} "
            "instead. The build record and the wheel's metadata say so."
        )
        return OneDnn(folder, tag, alternate.version, alternate.sha256, "alternate")
    raise OneDnnError(
        f"neither oneDNN {tag} nor an alternate can be had",
        where=reason.where,
        output="\n".join([reason.output, fault.output or fault.what]),
        next_step=f"name a clone in {REPOSITORY_VARIABLE}, or make a mirror reachable (docs/mirrors.md)",
    ) from fault


def _unpack(alternate: OneDnnAlternate, mirrors: Sequence[str], store: Store, reporter: Reporter, folder: Path) -> None:
    name = f"oneDNN {alternate.version} sources"
    archive = fetch(
        Pinned(name, mirrored(alternate.debian, mirrors), alternate.sha256, alternate.size),
        store,
        on_bytes=lambda done, total: reporter.download(name, done, total),
    )
    unpack_tar(archive, folder)


def _export_commit(
    tag: str,
    commit: str,
    repositories: Sequence[str],
    folder: Path,
    store: Store,
    reporter: Reporter,
    logs: Path,
) -> None:
    clone = store.root / "git" / "onednn"
    log = logs / "onednn.log"
    env = closed_environment({"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}, network=True)
    faults = []
    with store.lock("git", "onednn"):
        if not (clone / "HEAD").is_file():
            with storage_errors(clone):
                remove_tree(clone)
                clone.mkdir(parents=True)
            run(["git", "init", "--quiet", "--bare", clone], log=log, env=env)
        git: list[str | Path] = ["git", "-C", clone, *_PATIENCE]
        for repository in repositories:
            reporter.info(f"fetching oneDNN {tag} from {repository}")
            if fault := _fetch(git, repository, tag, commit, log, env):
                faults.append(f"{repository}: {fault}")
                continue
            _export(git, commit, folder, log, env)
            return
    raise OneDnnError(
        f"oneDNN {tag} ({commit}) cannot be fetched",
        where=", ".join(repositories),
        output="\n".join(faults),
        log=log,
        next_step=f"make one of them reachable or name a clone in {REPOSITORY_VARIABLE}",
    )


def _fetch(git: Sequence[str | Path], repository: str, tag: str, commit: str, log: Path, env: Mapping[str, str]) -> str:
    """Fetch the commit, by hash where the server allows it, else by its tag; return the fault, if any."""
    local = Path(repository).expanduser()
    source = str(local.resolve()) if local.is_dir() else repository
    answer = run([*git, "ls-remote", "--quiet", source, "HEAD"], log=log, env=env, check=False)
    if answer.returncode != 0:
        return _first_line(answer.output) or f"git status {answer.returncode}"
    for reference in (commit, f"refs/tags/{tag}", "+refs/heads/*:refs/remotes/origin/*"):
        depth = [] if "*" in reference else ["--depth=1"]
        run([*git, "fetch", "--quiet", "--no-tags", *depth, source, reference], log=log, env=env, check=False)
        known = run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], log=log, env=env, check=False)
        if known.returncode == 0:
            return ""
    return f"it has no commit {commit}"


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def _export(git: Sequence[str | Path], commit: str, folder: Path, log: Path, env: Mapping[str, str]) -> None:
    archive = folder / ".export.tar"
    try:
        run([*git, "archive", "--format=tar", f"--output={archive}", commit], log=log, env=env)
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except CommandError as error:
        raise OneDnnError(
            f"git cannot export {commit}",
            where=error.where,
            log=log,
            output=error.output,
            next_step=f"remove {git[2]} and run again",
        ) from error
    finally:
        archive.unlink(missing_ok=True)
