"""Sources by git commit: fetched from the first repository that has the commit, and exported into the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cpuwheels.core.digests import make_key, tree_names
from cpuwheels.core.errors import CommandError, LockedError
from cpuwheels.core.filesystem import remove_tree, storage_errors
from cpuwheels.core.process import run
from cpuwheels.core.text import first_lines
from cpuwheels.core.tree_faults import link_faults, name_faults
from cpuwheels.fetch.git import FULL_HASH, Git, count_objects, place_of, remove_leftovers
from cpuwheels.fetch.requests import current

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.core.console import Reporter
    from cpuwheels.core.errors import CpuwheelsError
    from cpuwheels.core.store import Store

_SHOWN = 5


@dataclass(frozen=True)
class GitSource:
    """A project whose sources are named by tag and commit.

    Attributes:
        name: For people.
        kind: Names its entries in the store, its clone and its log.
        tag: What upstream asks for.
        repositories: Git remotes and local clones, tried in order.
        variable: Environment variable in which the user can put one in front.
        error: What is raised where the commit cannot be fetched.
    """

    name: str
    kind: str
    tag: str
    repositories: tuple[str, ...]
    variable: str
    error: type[CpuwheelsError]


def repositories_of(pinned: Sequence[str], variable: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the repositories of a pin, after the one that the user named."""
    chosen = environ.get(variable)
    return (chosen, *pinned) if chosen else tuple(pinned)


@dataclass(frozen=True)
class Settled:
    """The sources of a project in the store; read only.

    Attributes:
        folder: The tree.
        commit: Names the content.
        kind: Whether the commit was pinned, or is what the tag named when it was looked up.
    """

    folder: Path
    commit: str
    kind: Literal["pinned", "tag"]


def settle(
    source: GitSource, pinned: str | None, *, store: Store, reporter: Reporter, logs: Path, locked: bool, where: str
) -> Settled:
    """Return a project's sources: of the pinned commit, else of the commit that the tag names, and announce that.

    A tag that is itself a full hash pins the content.

    Args:
        source: Where it can be found.
        pinned: The commit, if it is known.
        store: Where sources are kept.
        reporter: Reports which repository is asked, and announces a tag that had to be trusted.
        logs: Folder for git's log.
        locked: Refuse a tag alone.
        where: Where the commit should be listed.

    Raises:
        LockedError: ``locked``, and the commit is not known.
        CpuwheelsError: The source's own error: no repository has it, or git does not work.
    """
    known = pinned or (source.tag if FULL_HASH.fullmatch(source.tag) else None)
    if locked and known is None:
        raise refuse_tag(source.name, source.tag, where)
    commit = known or learn_commit(source, store=store, reporter=reporter, logs=logs)
    folder = get_commit(source, commit, store=store, reporter=reporter, logs=logs)
    if known is None:
        reporter.announce(
            f"{source.name} {source.tag} is pinned by its tag alone, which names commit {commit} here; write that into "
            "matrix.yaml"
        )
    return Settled(folder, commit, "pinned" if known else "tag")


def refuse_tag(name: str, tag: str, where: str, instead: str = "") -> LockedError:
    """Return the error for a project of which only a tag is known, which ``--locked`` refuses.

    Args:
        name: Of the project.
        tag: What upstream asks for.
        where: Where the commit should be listed.
        instead: What can be done as well, with a comma at its end.
    """
    return LockedError(
        f"{name} {tag} is pinned by its tag alone and --locked refuses that",
        where=where,
        next_step=f"run `git rev-parse '{tag}^{{commit}}'` in a clone and write the result there, {instead}or build "
        "without --locked",
    )


def commit_key(commit: str) -> str:
    """Return the store's key of a commit's sources."""
    return make_key(git=commit, layout=1)


def get_commit(source: GitSource, commit: str, *, store: Store, reporter: Reporter, logs: Path) -> Path:
    """Return the tree of a commit, from the store, else from the first repository that has it.

    Args:
        source: Where it can be found.
        commit: Its full hash.
        store: Where sources are kept.
        reporter: Reports which repository is asked.
        logs: Folder for git's log.

    Raises:
        LockedError: The run is locked, and the list of its downloads does not have the commit.
        CpuwheelsError: The source's own error: no repository has the commit, or git does not work.
    """
    if requests := current():
        requests.commit(f"{source.name} {source.tag}", commit)

    def export(folder: Path) -> None:
        with store.lock("git", source.kind):
            clone = _Clone(source, store, logs)
            try:
                clone.open()
                for repository in clone.reachable(reporter):
                    if clone.export_from(repository, commit, folder):
                        return
            except CommandError as error:
                raise clone.broken(error) from error
            raise clone.unreachable(f"{source.name} {source.tag} ({commit}) cannot be fetched")

    return store.get(source.kind, commit_key(commit), export)


def learn_commit(source: GitSource, *, store: Store, reporter: Reporter, logs: Path) -> str:
    """Return the commit that the tag names: in the first repository that has it, else as last fetched.

    Args:
        source: Where it can be found.
        store: Where its clone is kept.
        reporter: Reports which repository is asked.
        logs: Folder for git's log.

    Raises:
        CpuwheelsError: The source's own error: no repository has the tag, or git does not work.
    """
    with store.lock("git", source.kind):
        clone = _Clone(source, store, logs)
        try:
            clone.open()
            for repository in clone.reachable(reporter):
                if clone.fetch_tag(repository) and (commit := clone.tagged()):
                    return commit
                clone.faults.append(f"{repository}: it has no tag {source.tag}")
            if commit := clone.tagged():
                return commit
        except CommandError as error:
            raise clone.broken(error) from error
        raise clone.unreachable(f"{source.name} {source.tag} cannot be fetched")


class _Clone:
    """The bare repository in the store through which one project is fetched; the caller holds its lock."""

    def __init__(self, source: GitSource, store: Store, logs: Path) -> None:
        self.faults: list[str] = []
        self._source = source
        self._folder = store.root / "git" / source.kind
        self._log = logs / f"{source.kind}.log"
        self._repository = Git(self._folder)

    def open(self, *, anew: bool = False) -> None:
        """Make it, unless it is there and whole enough for git to use it."""
        if not anew and (self._folder / "HEAD").is_file() and self._git("rev-parse", "--git-dir")[0] == 0:
            with storage_errors(self._folder):
                remove_leftovers(self._folder)
            return
        with storage_errors(self._folder):
            remove_tree(self._folder)
            self._folder.mkdir(parents=True)
        run(self._repository.command("init", "--quiet", "--bare"), log=self._log, env=self._repository.env)

    def reachable(self, reporter: Reporter) -> Iterator[str]:
        """Yield the repositories that answer; the faults of the others are kept."""
        for repository in self._source.repositories:
            reporter.info(f"fetching {self._source.name} {self._source.tag} from {repository}")
            if requests := current():
                requests.repository(repository)
            count_objects(self._folder, place_of(repository))
            status, output = self._git("ls-remote", "--quiet", "--", place_of(repository), "HEAD")
            if status == 0:
                yield repository
            else:
                self.faults.append(f"{repository}: {_first_line(output) or f'git status {status}'}")

    def fetch(self, repository: str, commit: str) -> bool:
        """Fetch a commit, by hash where the server allows it, else by its tag, else with all branches."""
        for reference in (commit, f"refs/tags/{self._source.tag}", "+refs/heads/*:refs/remotes/origin/*"):
            depth = [] if "*" in reference else ["--depth=1"]
            self._git("fetch", "--quiet", "--no-tags", *depth, "--", place_of(repository), reference)
            if self._git("cat-file", "-e", f"{commit}^{{commit}}")[0] == 0:
                return True
        return False

    def fetch_tag(self, repository: str) -> bool:
        """Fetch the tag with its commit, wherever it pointed before."""
        tag = f"refs/tags/{self._source.tag}"
        return (
            self._git("fetch", "--quiet", "--no-tags", "--depth=1", "--", place_of(repository), f"+{tag}:{tag}")[0] == 0
        )

    def tagged(self) -> str | None:
        """Return the commit of the tag as it was last fetched, if it ever was."""
        name = f"refs/tags/{self._source.tag}^{{commit}}"
        status, output = self._git("rev-parse", "--quiet", "--verify", name)
        return output.strip() if status == 0 else None

    def export_from(self, repository: str, commit: str, folder: Path) -> bool:
        """Fetch a commit and write its files into a folder; return False if the repository does not have it.

        A clone that git fails on, as after a power cut, is made anew once.

        Raises:
            CpuwheelsError: The source's own error.
        """
        for anew in (False, True):
            if anew:
                with storage_errors(folder):
                    remove_tree(folder)
                    folder.mkdir()
                self.open(anew=True)
            if not self.fetch(repository, commit):
                if not anew and self._git("fsck", "--no-dangling")[0] != 0:
                    continue
                self.faults.append(f"{repository}: it has no commit {commit}")
                return False
            answer = self._repository.check_out(commit, folder)
            if answer.returncode == 0:
                self._check(commit, folder)
                return True
        raise self._source.error(
            f"git cannot check out {commit}",
            where=repository,
            log=self._log,
            output=answer.output,
            next_step="name another repository in " + self._source.variable,
        )

    def _check(self, commit: str, folder: Path) -> None:
        names = tree_names(folder)
        if faults := name_faults(names) or link_faults(folder, names):
            raise self._source.error(
                f"{self._source.name} {commit} has a file that may not be in a source: {faults[0]}",
                where=self._source.name,
                output="\n".join(first_lines(faults, _SHOWN)),
                next_step="do not use this commit; pin another one",
            )

    def broken(self, error: CommandError) -> CpuwheelsError:
        """Return the error for a git that cannot be run."""
        return self._source.error(
            f"{self._source.name} {self._source.tag} cannot be fetched: git does not work here",
            where=error.where,
            output="\n".join(filter(None, (error.what, error.output))),
            log=error.log,
            next_step="install git",
        )

    def unreachable(self, what: str) -> CpuwheelsError:
        """Return the error that lists the faults of all repositories."""
        return self._source.error(
            what,
            where=", ".join(self._source.repositories),
            output="\n".join(self.faults),
            log=self._log,
            next_step=f"make one of them reachable or name a clone in {self._source.variable}",
        )

    def _git(self, *arguments: str) -> tuple[int, str]:
        done = run(self._repository.command(*arguments), log=self._log, env=self._repository.env, check=False)
        return done.returncode, done.output


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""
