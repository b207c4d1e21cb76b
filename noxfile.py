# /// script
# requires-python = ">=3.11"
# dependencies = ["nox[uv]>=2025.10.14"]
# ///
"""Sessions: one for each thing a person does with this project. `nox -l` lists them.

Options of a session follow --, as in: nox -s build-x86 -- --source 0.32.0
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import re
import shutil
import subprocess
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import IO, TYPE_CHECKING

import nox
import uv

if TYPE_CHECKING:
    from collections.abc import Iterator

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "uv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "types", "tests"]

ROOT = Path(__file__).parent
ENVIRONMENTS = ROOT / ".nox" / "cpuwheels"
"""Where the environment of the commands is."""

MARKER = "cpuwheels-installed.txt"
"""In an environment: the digest of what it was made from, written when it is complete."""

SIGNING = {
    *("make-key", "sign", "verify-provenance", "collect-rebuilds"),
    *("--key", "--keyless", "--trusted-key", "--identity", "--rebuilders"),
}
"""Commands that sign or verify, and options with which others do."""

FARM = {"farm", "--farm"}
"""The command that starts a farm, and the option with which others send their jobs to one."""

COMMANDS: set[str] = set()
"""Names of the sessions that run one command of the command line."""


def _targets() -> list[dict[str, str]]:
    """Return id, description and status of each target in matrix.yaml.

    The lines are read without a YAML library, so that nox[uv] is all this file needs: for anything else nox would
    first make an environment to run itself in.
    """
    text = (ROOT / "matrix.yaml").read_text(encoding="utf-8")
    targets = re.split(r"^  - (?=id: )", text, flags=re.MULTILINE)[1:]
    keys = re.compile(r'^(?:    )?(id|description|status): "?(.*?)"?$', re.MULTILINE)
    return [dict(keys.findall(target)) for target in targets]


class _Brief(logging.Filter):
    """Drops nox's lines on the start and success of a session of one command, unless nox is verbose."""

    _NEWS = re.compile(r"(?:Running session|Session) (\S+)(?: was successful.*)?")

    def filter(self, record: logging.LogRecord) -> bool:
        news = self._NEWS.fullmatch(record.getMessage())
        return news is None or news[1] not in COMMANDS or logging.getLogger().isEnabledFor(logging.DEBUG - 1)


logging.getLogger("nox").addFilter(_Brief())


def _install(session: nox.Session, lock: str) -> None:
    """Install a lock and this project into the session's environment, unless it has them."""
    _fill(session, Path(session.virtualenv.location), lock)


def _fill(session: nox.Session, folder: Path, lock: str) -> None:
    """Install a lock and this project into an environment.

    The lock names exact versions and hashes, so uv's cache is as good as the index. The index is asked only for what
    the cache lacks: nothing once a lock has been installed. If nothing has changed since the environment was made, it
    is used as it is.
    """
    made, wanted = folder / MARKER, _installed(lock)
    if made.is_file() and made.read_text(encoding="utf-8") == wanted:
        return
    made.unlink(missing_ok=True)
    install = ["pip", "install", "--quiet", "--python", str(folder)]
    # Bytecode now: a command starts in half the time, even where Python is set to write none.
    requirements = ["--compile-bytecode", "--require-hashes", "-r", f"locks/{lock}.txt"]
    if _uv(*install, "--offline", *requirements, quiet=True) and _uv(*install, *requirements):
        session.error(f"locks/{lock}.txt cannot be installed; the reason is above")
    if _uv(*install, "--offline", "--no-deps", "--no-build-isolation", "-e", "."):
        session.error("this project cannot be installed; the reason is above")
    made.write_text(wanted, encoding="utf-8")


def _uv(*arguments: str, quiet: bool = False) -> int:
    """Return uv's exit code."""
    return subprocess.run([uv.find_uv_bin(), *arguments], cwd=ROOT, capture_output=quiet, check=False).returncode


def _installed(lock: str) -> str:
    """Return a digest of what an installed environment depends on: lock, package description, helpers, file names.

    The commit is part of it, because the package's version is, and build records have that version.
    """
    describe = ["git", "describe", "--always", "--dirty", "--long", "--abbrev=40"]
    version = subprocess.run(describe, cwd=ROOT, capture_output=True, check=False).stdout
    files = [ROOT / "locks" / f"{lock}.txt", ROOT / "pyproject.toml", *sorted((ROOT / "csrc").rglob("*.*"))]
    names = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.py"))
    parts = [sys.version.encode(), str(ROOT).encode(), version, "\n".join(names).encode()]
    return hashlib.sha256(b"\0".join([*parts, *(path.read_bytes() for path in files if path.is_file())])).hexdigest()


@contextlib.contextmanager
def _environment(session: nox.Session, lock: str) -> Iterator[tuple[Path, int]]:
    """Yield the environment that all commands of a lock share, and an open file whose lock keeps it from being removed.

    It is named after what is installed in it and never changed: a command that runs for hours keeps the packages it
    began with, even if another one needs newer ones meanwhile. Those that no command uses any more are removed.
    """
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    chosen = ENVIRONMENTS / _installed(lock)[:16]
    with contextlib.ExitStack() as files:
        with (ENVIRONMENTS / "making").open("w") as making:
            if not _lock(making, fcntl.LOCK_EX):
                _report(session, "waiting for another nox, which makes the environment")
                fcntl.flock(making, fcntl.LOCK_EX)
            used = files.enter_context(chosen.with_suffix(".used").open("w"))
            _lock(used, fcntl.LOCK_SH)
            if not (chosen / MARKER).is_file():
                _report(session, "making the environment of the commands, once for all of them")
                shutil.rmtree(chosen, ignore_errors=True)
                if _uv("venv", "--quiet", "--python", sys.executable, str(chosen)):
                    session.error("the environment cannot be made; the reason is above")
                _fill(session, chosen, lock)
            current = {_installed(name)[:16] for name in ("run", "signing", "farm")}
            for other in ENVIRONMENTS.glob("*.used"):
                if other.stem not in current:
                    _remove_unused(other)
        yield chosen, used.fileno()


def _report(session: nox.Session, message: str) -> None:
    """Print a line, unless the command is to print results and errors alone."""
    if not {"-q", "--quiet"} & set(session.posargs):
        session.log(message)


def _remove_unused(used: Path) -> None:
    """Remove an environment unless a command holds the lock on its file."""
    with used.open("w") as stream:
        if _lock(stream, fcntl.LOCK_EX):
            shutil.rmtree(used.with_suffix(""), ignore_errors=True)
            used.unlink()


def _lock(stream: IO[str], kind: int) -> bool:
    """Take the lock on an open file if it is free, and return whether it was."""
    try:
        fcntl.flock(stream, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _cpuwheels(session: nox.Session, *arguments: str) -> None:
    """Run the command line and exit with its code, where nox itself would turn any failure into 1."""
    with _environment(session, _lock_of(session, arguments[0])) as (environment, used):
        # The command holds the lock too: it may outlive nox.
        command = [environment / "bin" / "cpuwheels", "--root", ROOT, *arguments]
        # Paths that are given, and commands of a bisection, mean the folder in which nox was started.
        process = subprocess.Popen(command, cwd=session.invoked_from, pass_fds=[used])
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:
                continue  # the command has got the signal too and is ending cleanly
    if code != 0:
        sys.exit(code)


def _lock_of(session: nox.Session, command: str) -> str:
    """Return the lock of a command: what signs, verifies or sends jobs away is installed for those alone that do."""
    words = {command, *(word.partition("=")[0] for word in session.posargs)}
    return "farm" if FARM & words else "signing" if SIGNING & words else "run"


def _command(name: str, summary: str, *arguments: str, tags: list[str]) -> None:
    """Register a session that runs one command of the command line, in the environment that all of them share."""

    def run(session: nox.Session) -> None:
        _cpuwheels(session, *arguments, *session.posargs)

    run.__doc__ = summary
    nox.session(name=name, default=False, tags=tags, venv_backend="none")(run)
    COMMANDS.add(name)


for _target in _targets():
    _id = _target["id"]
    _state = "" if _target["status"] == "ready" else " [planned]"
    _command(f"build-{_id}", f"Build the wheel: {_target['description']}{_state}", "build", _id, tags=["build"])
    _command(f"parity-{_id}", f"Check the results of the {_id} wheel's kernels{_state}", "parity", _id, tags=["parity"])
    _command(f"serve-{_id}", f"Serve small models from the {_id} wheel{_state}", "serve", _id, tags=["serve"])
    _command(f"image-{_id}", f"Write a container image of the {_id} wheel{_state}", "image", _id, tags=["image"])
    _command(f"verify-{_id}", f"Build {_id} twice and compare every byte{_state}", "verify", _id, tags=["verify"])
    _command(
        f"kernel-bench-{_id}",
        f"Time the kernels of two {_id} wheels in turn{_state}",
        "kernel-bench",
        _id,
        tags=["bench"],
    )

_command("serve-bench", "Serve models from two wheels in turn and time the answers", "serve-bench", tags=["bench"])
_command("develop", "Install a vLLM checkout editable, with kernels that fit it", "develop", tags=["build"])
_command("rebuild", "Build a published wheel again and compare every byte; -- WHEEL", "rebuild", tags=["verify"])
_command("mirror", "Keep all that wheels are built from; -- FOLDER WHEEL...", "mirror", tags=["verify"])
_command("compare", "Compare two builds: files, symbols, flags, times", "compare", tags=["bench"])
_command("bisect", "Find the commit that made a wheel bad", "bisect", tags=["bisect"])
_command("nightly", "Build, test and publish the newest wheels", "nightly", tags=["index"])
_command("matrix", "Show the targets of the nightly job; -- --github for GitHub Actions", "matrix", tags=["index"])
_command("pylock", "Write the lock of a wheel next to it; -- TARGET WHEEL", "pylock", tags=["index"])
_command("publish", "Add a wheel to the index by hand", "publish", tags=["index"])
_command("make-key", "Make a key that signs wheels; -- FILE", "make-key", tags=["index"])
_command("sign", "Sign the provenance of a wheel; -- WHEEL --key FILE", "sign", tags=["index"])
_command("verify-provenance", "Verify who built a wheel from what; -- WHEEL", "verify-provenance", tags=["index"])
_command("collect-rebuilds", "Ask rebuilders what they got; -- --rebuilders FILE", "collect-rebuilds", tags=["index"])
_command("check-index", "Verify everything in the index", "check-index", tags=["index"])
_command("serve-index", "Serve the index on this machine", "serve-index", tags=["index"])
_command("doctor", "Check what a build needs before it starts", "doctor", tags=["help"])
_command("clean", "Remove from the stores what nobody used for long; -- --dry-run", "clean", tags=["help"])
_command("batch", "Build the wheels of several targets and sources; -- TARGET... --source X", "batch", tags=["build"])
_command("farm", "Start workers for the jobs of other machines; -- up --workers 3", "farm", tags=["build"])
_command("share", "Share kernels with other machines; -- TARGET --store PLACE --key FILE", "share", tags=["index"])
_command("schema", "Write the JSON schemas and reference pages from the models", "schema", tags=["upkeep"])


@nox.session
def tests(session: nox.Session) -> None:
    """Run the unit tests and the core integration tests; -- PATHS, options of pytest or --group NAME."""
    _run_tests(session, "--part=unit", "--part=core")


@nox.session(name="tests-full", default=False, tags=["tests"])
def tests_full(session: nox.Session) -> None:
    """Run all other tests but the kill campaigns; those of a wheel need one in dist/ (build-x86)."""
    _run_tests(session, "--part=wheel", "--part=full", "--keep-going")


@nox.session(default=False, tags=["tests"])
def soak(session: nox.Session) -> None:
    """Kill builds and a publisher again and again."""
    _run_tests(session, "--part=soak", "--keep-going")


def _run_tests(session: nox.Session, *parts: str) -> None:
    """Run parts of the tests; tests/groups.toml lists them."""
    _install(session, "dev")
    session.run("python", "tests/run.py", *parts, *session.posargs)


@nox.session(default=False, tags=["bench"])
def simulation(session: nox.Session) -> None:
    """Simulate memgate's policy on machines of 4 to 128 CPUs and 4 to 256 GiB."""
    _install(session, "bench")
    session.run("python", "benchmarks/simulation.py", "--plot", "docs/images/simulation.svg", *session.posargs)


@nox.session(default=False, tags=["bench"])
def bench(session: nox.Session) -> None:
    """Build with and without steering, and compare time, memory and size; hours (docs/benchmark.md)."""
    _install(session, "bench")
    session.run("python", "benchmarks/bench.py", *session.posargs)


@nox.session(name="upstream-reports", default=False, tags=["upkeep"])
def upstream_reports(session: nox.Session) -> None:
    """Write docs/upstream/; -- --check, or -- --run --unpatched WHEEL [--patched WHEEL] to run the reproducers."""
    _install(session, "dev")
    session.run("python", ".ci/upstream_reports.py", *session.posargs)


@nox.session(name="upstream-tests", default=False, tags=["upkeep"])
def upstream_tests(session: nox.Session) -> None:
    """Run vLLM's own tests of CPU kernels on two wheels; -- --wheel WHEEL --against WHEEL [TEST ...]."""
    _install(session, "dev")
    session.run("python", ".ci/upstream_tests.py", *session.posargs)


@nox.session(name="parity-table", default=False, tags=["upkeep"])
def parity_table(session: nox.Session) -> None:
    """Write the table of releases in docs/parity.md from the wheels' parity.json in dist/x86/."""
    _install(session, "dev")
    session.run("python", ".ci/parity_table.py", *session.posargs)


@nox.session(default=False, tags=["upkeep"])
def docs(session: nox.Session) -> None:
    """Build the site of the documentation in dist/docs; -- --test runs the commands that are marked in it."""
    _install(session, "docs")
    session.run("python", ".ci/docs_session.py", *session.posargs)


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Make this project's sdist and wheel of a tagged commit; -- --check checks any commit and keeps nothing."""
    _install(session, "dev")
    session.run("python", ".ci/release.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style: ruff for Python, clang-format for C, schemas up to date."""
    _install(session, "dev")
    session.run("ruff", "check", "--no-cache", ".")
    session.run("ruff", "format", "--check", "--no-cache", ".")
    # The tests' replacement of upstream's sources is C++ and formatted as upstream does.
    sources = sorted(str(path) for path in (*(ROOT / "csrc").rglob("*.[ch]"), *(ROOT / "tests").rglob("*.c")))
    session.run("clang-format", "--style=file:csrc/.clang-format", "--dry-run", "--Werror", *sources)
    session.run("cpuwheels", "schema", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy, strictly."""
    _install(session, "dev")
    session.run("mypy")


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Resolve all locks anew; -- --update takes newer versions, except the youngest."""
    _install(session, "dev")
    session.run("cpuwheels", "lock", *session.posargs)
    session.run("cpuwheels", "schema")


def _unknown_session(words: list[str], known: list[str]) -> str:
    """Return what is wrong with the sessions of a command line of nox, or "" if all of them are there.

    nox itself names a session that is not there and no other.
    """
    asked: list[str] = []
    listing = False
    for word in words[: words.index("--") if "--" in words else None]:
        option, _, value = word.partition("=")
        if word.startswith("-"):
            listing = option in {"-s", "-e", "--session", "--sessions"}
            asked += [value] * bool(listing and value)
        elif listing:
            asked.append(word)
    there = [name for name in asked if name in known]
    for name in (one for one in asked if one not in known and "(" not in one):
        near = get_close_matches(name, known, 1)
        if there and not near:
            again = " ".join(["nox", "-s", there[0], "--", *asked[asked.index(name) :]])
            return (
                f"error: there is no session '{name}'\n  where: command line\n  next:  if it is for {there[0]}, "
                f"put -- in front of it: {again}"
            )
        step = f"did you mean {near[0]}? nox -l lists all" if near else "nox -l lists all"
        return f"error: there is no session '{name}'\n  where: command line\n  next:  {step}"
    return ""


_is_nox = Path(sys.argv[0]).stem == "nox" or Path(sys.argv[0]).parent.name == "nox"
if _is_nox and (_wrong := _unknown_session(sys.argv[1:], list(nox.registry.get()))):
    print(_wrong, file=sys.stderr)
    sys.exit(2)  # as for any other command line that is wrong
