"""The options of a build, as the command line gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cpuwheels.core.arguments import named_arguments

if TYPE_CHECKING:
    from pathlib import Path

ToolchainChoice = Literal["auto", "host", "debian"]
CacheChoice = Literal["auto", "off"]
Level = Literal["smoke", "full", "deep"]
Sanitizer = Literal["address", "thread"]
NightlyPart = Literal["all", "build", "publish"]
Regress = Literal["error", "success", "crash", "slow", "wrong-token"]

FEWEST_ROUNDS = 6
"""With fewer, even the interval from the smallest to the largest ratio covers less than 95 % (`benchmark.ratio`)."""

SLOWER = 1.2
"""How many times as long as at the good end is too slow, if a bisection is not told otherwise."""

LEAST_RATIO = 0.97
"""Smallest ratio of an operator that is not a slowdown, unless the user gives another."""


@dataclass(frozen=True)
class BuildOptions:
    """What the user may choose for one build.

    Attributes:
        source: Version, path or commit; the matrix's default when None.
        repo: Clone in which the commit is looked up; the matrix's repositories when None.
        sha256: Digest of the sdist, for a version the matrix does not pin.
        toolchain: Which compilers may be used.
        memory: Cap as given, such as ``8G``; what the machine has when None.
        jobs: Upper bound for compilations at once, as given.
        locked: Refuse fallbacks and anything not pinned by content; nothing is fetched but what is listed.
        allow_fallbacks: With ``locked``: use fallbacks that are pinned, where what comes first cannot be had.
        debug_symbols: Write separate ``.debug`` files.
        compiler_cache: Whether objects of other builds may be used.
        kernels_from: A wheel, a folder of wheels or an index whose kernels are used, if they are those of the source;
            nothing is compiled then.
        allow_unsandboxed: Whether upstream's code may run unconfined where nothing can confine it.
        sandbox_required: Whether it is refused otherwise, also without ``locked``: commits of anybody are built.
        upstream_kernels: Whether faults of upstream's kernels stay: the patches that fix them are left out, and those
            that make them faster.
        upstream_speed: Whether only those that make them faster are left out.
        sanitize: Sanitizers that kernels are compiled for, which become no wheel then.
    """

    source: str | None = None
    repo: Path | None = None
    sha256: str | None = None
    toolchain: ToolchainChoice = "auto"
    memory: str | None = None
    jobs: str | None = None
    locked: bool = False
    allow_fallbacks: bool = False
    debug_symbols: bool = False
    compiler_cache: CacheChoice = "auto"
    kernels_from: str | None = None
    allow_unsandboxed: bool = False
    sandbox_required: bool = False
    upstream_kernels: bool = False
    upstream_speed: bool = False
    sanitize: Sanitizer | None = None

    def as_arguments(self) -> list[str]:
        """Return these options as command-line arguments."""
        named = {
            "--source": self.source,
            "--repo": str(self.repo) if self.repo else None,
            "--sha256": self.sha256,
            "--toolchain": self.toolchain,
            "--memory": self.memory,
            "--jobs": self.jobs,
            "--compiler-cache": self.compiler_cache,
            "--kernels-from": self.kernels_from,
        }
        flags = {
            "--locked": self.locked,
            "--allow-fallbacks": self.allow_fallbacks,
            "--debug-symbols": self.debug_symbols,
            "--allow-unsandboxed": self.allow_unsandboxed,
            "--upstream-kernels": self.upstream_kernels,
            "--upstream-speed": self.upstream_speed,
            "--sandbox-required": self.sandbox_required,
        }
        arguments = named_arguments(named)
        return arguments + [name for name, wanted in flags.items() if wanted]


@dataclass(frozen=True)
class ParityOptions:
    """What the user may choose for one run of parity.

    Attributes:
        wheel: The wheel; the target's newest when None.
        level: How many cases.
        operators: Operators to test; all if empty.
        threads: Threads of the operators; all CPUs that may be used when None.
        against: Another wheel with its ``parity.json``, or that file.
        out: Folder of the reports; next to the wheel when None.
        emulation: Whether libraries are also tested on CPUs that this machine does not have.
        sanitize: Sanitizers that kernels are compiled for and tested with, in place of a wheel's.
        source: What these are compiled from, as for a build.
    """

    wheel: Path | None = None
    level: Level = "full"
    operators: tuple[str, ...] = ()
    threads: int | None = None
    against: Path | None = None
    out: Path | None = None
    emulation: bool = True
    sanitize: Sanitizer | None = None
    source: str | None = None


@dataclass(frozen=True)
class BisectOptions:
    """What the user may choose for one bisection.

    Attributes:
        good: The good end: a hash, tag, branch, version or date.
        bad: The bad end, likewise; the newest commit of ``branch`` if empty.
        run: Shell command that decides.
        parity: Operator whose results decide.
        bench: Operator whose speed decides.
        serve: Model whose answers decide, or a script that asks a server.
        prompt: Text that a server is asked; its answer is shown, or compared with the good end's.
        regress: Which change is looked for; that to an error if not given.
        slower: How many times as long as at the good end is too slow; with ``serve`` speed decides only if it is given.
        library: Kernel library whose speed decides.
        level: How many cases of the operator decide.
        branch: Where dates are looked up.
        all_parents: Whether what was merged is searched too, and not only merges.
        jobs: Commits tested at once.
        timeout: Seconds after which a command is ended and counts as bad.
        env: Names of variables that the command or script gets, besides those that every one gets.
        readable: Files and folders that the command or script may read, besides those that it names.
        writable: Files and folders that it may write.
        unconfined: Whether it runs with all rights of the user.
        requirements: Whether the command's environment has all that the wheel requires, or torch alone.
        allow_sdists: Whether requirements without a wheel are built from source, which runs their code.
        log: A bisection's file or ``git bisect log`` whose verdicts are trusted.
        out: Folder of the bisection; below dist/bisect/ when None.
        repo: Clone of vLLM; the matrix's repositories when None.
        index: Index of wheels by commit that is asked before anything is built.
        kernels_from: As for a build, but commits that have other kernels are compiled.
        toolchain: Which compilers may be used.
        memory: Cap of the builds as given.
        locked: Refuse fallbacks and anything not pinned by content.
        allow_unsandboxed: As for a build.
        patched_kernels: Whether faults of upstream's kernels are fixed; a search for what upstream did to them wants
            them as they are.
    """

    good: str
    bad: str = ""
    run: str | None = None
    parity: str | None = None
    bench: str | None = None
    serve: str | None = None
    prompt: str | None = None
    regress: Regress | None = None
    slower: float | None = None
    library: str = "_C"
    level: Level = "smoke"
    branch: str = "main"
    all_parents: bool = False
    jobs: int = 1
    timeout: float | None = None
    env: tuple[str, ...] = ()
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    unconfined: bool = False
    requirements: bool = True
    allow_sdists: bool = False
    log: Path | None = None
    out: Path | None = None
    repo: Path | None = None
    index: str | None = None
    kernels_from: str | None = None
    toolchain: ToolchainChoice = "auto"
    memory: str | None = None
    locked: bool = False
    allow_unsandboxed: bool = False
    patched_kernels: bool = False

    @property
    def by_person(self) -> bool:
        """Whether a person gives the verdicts."""
        return not (self.run or self.parity or self.bench or self.serve or self.prompt) or self.shows_answers

    @property
    def shows_answers(self) -> bool:
        """Whether a person is shown what servers answer, and decides."""
        return self.prompt is not None and self.regress is None

    @property
    def in_environment(self) -> bool:
        """Whether a command, or a person, gets an environment with the wheel."""
        return bool(self.run) or (self.by_person and self.prompt is None)

    @property
    def build(self) -> BuildOptions:
        """How wheels are built."""
        return BuildOptions(
            repo=self.repo,
            toolchain=self.toolchain,
            memory=self.memory,
            locked=self.locked,
            kernels_from=self.kernels_from,
            allow_unsandboxed=self.allow_unsandboxed,
            upstream_kernels=not self.patched_kernels,
        )


@dataclass(frozen=True)
class NightlyOptions:
    """What the user may choose for a nightly job.

    Attributes:
        targets: Target ids; all that can be built here if empty.
        since: Commit after which every commit is built; only the newest when None.
        release: Version that is built in place of commits.
        latest_release: Whether the commit of the newest release tag is built in place of the newest commit.
        branch: Branch whose commits are built; the matrix's when None.
        repo: Clone of vLLM; the matrix's repositories when None.
        level: How many cases of each operator are tested; the matrix's when None.
        hours: Time after which nothing more is begun.
        memory: Cap of the builds as given.
        locked: As for a build; a wheel that was built otherwise is not published then.
        allow_fallbacks: As for a build.
        address: Where the users of the index reach it.
        commit: The one commit that is built; by its full hash.
        part: ``build`` builds and tests, and leaves wheels to be published; ``publish`` publishes what that left;
            ``all`` does both.
        wheels: Folder where a build left wheels; the job's own when None.
        allow_unsandboxed: As for a build; a nightly job refuses to build unconfined without it.
        verify: Whether the wheel of one target is built a second time, if the matrix says what is different then.
    """

    targets: tuple[str, ...] = ()
    since: str | None = None
    release: str | None = None
    latest_release: bool = False
    branch: str | None = None
    repo: Path | None = None
    level: Level | None = None
    hours: float | None = None
    memory: str | None = None
    locked: bool = True
    allow_fallbacks: bool = False
    address: str | None = None
    commit: str | None = None
    part: NightlyPart = "all"
    wheels: Path | None = None
    allow_unsandboxed: bool = False
    verify: bool = True

    @property
    def build(self) -> BuildOptions:
        """How wheels are built."""
        return BuildOptions(
            repo=None if self.release else self.repo,
            memory=self.memory,
            locked=self.locked,
            allow_fallbacks=self.allow_fallbacks,
            allow_unsandboxed=self.allow_unsandboxed,
            sandbox_required=True,
        )


@dataclass(frozen=True)
class SpeedOptions:
    """What the user may choose for one comparison of speed.

    Attributes:
        against: The other wheel.
        wheel: The wheel; the target's newest when None.
        library: Kernel library that is timed; the target's first that this CPU runs when None.
        operators: Operators to time; all if empty.
        rounds: How often both sides are started and timed.
        cases: Cases of each operator and data type, the largest ones.
        threads: Threads of the operators; all CPUs that may be used when None.
        least: Smallest ratio that is not a failure.
        out: Folder of ``speed.json``; next to the wheel when None.
    """

    against: Path
    wheel: Path | None = None
    library: str | None = None
    operators: tuple[str, ...] = ()
    rounds: int = 9
    cases: int = 2
    threads: int | None = None
    least: float = LEAST_RATIO
    out: Path | None = None


@dataclass(frozen=True)
class ImageOptions:
    """What the user may choose for container images.

    Attributes:
        wheels: One for each target; the targets' newest if empty.
        compiler: Whether they are the flavour with a C++ compiler.
        zen: Whether they have AMD's zentorch.
        relock: Resolve requirements anew and write the project's lock.
        locked: Refuse the alternate base, and a torch that is not pinned by content.
        allow_fallbacks: Take the alternate base all the same.
        check: Whether they are read back, unpacked and run.
        push: ``REGISTRY/NAME:TAG`` to push them to; nowhere when None.
        out: Folder of the layout; next to the wheel, or below ``images/`` for several targets, when None.
    """

    wheels: tuple[Path, ...] = ()
    compiler: bool = False
    zen: bool = False
    relock: bool = False
    locked: bool = False
    allow_fallbacks: bool = False
    check: bool = False
    push: str | None = None
    out: Path | None = None
