# /// script
# requires-python = ">=3.11"
# dependencies = ["nox[uv]==2026.10.20", "pyyaml==6.0.3"]
# ///
"""Sessions: one for each thing a person does with this project. `nox -l` lists them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import nox
import uv
import yaml

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "uv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "types", "tests"]

ROOT = Path(__file__).parent
TARGETS = yaml.safe_load((ROOT / "matrix.yaml").read_text(encoding="utf-8"))["targets"]


def _install(session: nox.Session, lock: str) -> None:
    """Install a lock and this project.

    The lock names exact versions and hashes, so what uv's cache has is as good as what the index has; the
    index is asked only for what is missing, and nothing is once a lock has been installed. If nothing has changed
    since the environment was made, it is taken as it is.
    """
    made, wanted = Path(session.virtualenv.location) / "cpuwheels-installed.txt", _installed(lock)
    if made.is_file() and made.read_text(encoding="utf-8") == wanted:
        return
    made.unlink(missing_ok=True)
    # Bytecode now: a command starts in half the time, also where Python is told to write none.
    requirements = ["--quiet", "--compile-bytecode", "--require-hashes", "-r", f"locks/{lock}.txt"]
    cached = [uv.find_uv_bin(), "pip", "install", "--offline", "--python", session.virtualenv.location]
    if subprocess.run([*cached, *requirements], cwd=ROOT, capture_output=True, check=False).returncode != 0:
        session.install(*requirements)
    session.install("--quiet", "--offline", "--no-deps", "--no-build-isolation", "-e", ".", silent=True, log=False)
    made.write_text(wanted, encoding="utf-8")


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


def _cpuwheels(session: nox.Session, *arguments: str) -> None:
    """Run the command line; its exit code becomes nox's own, which would turn any failure into 1."""
    _install(session, "run")
    command = [Path(session.bin) / "cpuwheels", *arguments]
    process = subprocess.Popen(command, cwd=ROOT)
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            continue  # the command has got the signal too and is ending tidily
    if code != 0:
        sys.exit(code)


def _command(name: str, summary: str, *arguments: str, tags: list[str]) -> None:
    """Register a session that runs one command of the command line."""

    def run(session: nox.Session) -> None:
        _cpuwheels(session, *arguments, *session.posargs)

    run.__doc__ = summary
    nox.session(name=name, default=False, tags=tags)(run)


for _target in TARGETS:
    _id = _target["id"]
    _state = "" if _target["status"] == "ready" else " [planned]"
    _command(f"build-{_id}", f"Build the wheel: {_target['description']}{_state}", "build", _id, tags=["build"])
    _command(f"parity-{_id}", f"Run the {_id} wheel's kernels against torch{_state}", "check", _id, tags=["parity"])
    _command(f"serve-{_id}", f"Serve small models from the {_id} wheel{_state}", "serve", _id, tags=["serve"])
    _command(f"verify-{_id}", f"Build {_id} twice and compare every byte{_state}", "verify", _id, tags=["verify"])

_command("kernel-bench", "Time the kernels of two wheels in turn", "kernel-bench", "x86", tags=["bench"])
_command("develop", "Install a vLLM checkout editable, with kernels that fit it", "develop", tags=["build"])
_command("bisect", "Find the commit that made a wheel bad", "bisect", tags=["bisect"])
_command("nightly", "Build, test and publish the newest wheels", "nightly", tags=["index"])
_command("matrix", "Show the targets of the nightly job; -- --github for GitHub Actions", "matrix", tags=["index"])
_command("publish", "Add a wheel to the index by hand", "publish", tags=["index"])
_command("check-index", "Verify everything in the index", "check-index", tags=["index"])
_command("serve-index", "Serve the index on this machine", "serve-index", tags=["index"])
_command("doctor", "Check what a build needs before it starts", "doctor", tags=["help"])
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
    """Run parts of the tests; tests/groups.toml says what belongs to them."""
    _install(session, "dev")
    session.run("python", "tests/run.py", *parts, *session.posargs)


@nox.session(default=False, tags=["bench"])
def simulation(session: nox.Session) -> None:
    """Try memgate's policy on machines of 4 to 128 CPUs and 4 to 256 GiB."""
    _install(session, "bench")
    session.run("python", "benchmarks/simulation.py", "--plot", "docs/images/simulation.svg", *session.posargs)


@nox.session(default=False, tags=["bench"])
def bench(session: nox.Session) -> None:
    """Build with and without steering, and compare time, memory and size; hours (docs/benchmark.md)."""
    _install(session, "bench")
    session.run("python", "benchmarks/bench.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style: ruff for Python, clang-format for C, schemas up to date."""
    _install(session, "dev")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    # What stands for upstream's sources in the tests is C++, and as upstream formats it.
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
    """Resolve all locks anew: Python tools and Debian packages."""
    _install(session, "dev")
    compile_lock = (
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--python-version=3.11",
        "--generate-hashes",
        "--no-header",
    )
    for name in ("build-tools", "parity", "zig"):
        session.run(*compile_lock, f"locks/{name}.in", "-o", f"locks/{name}.txt")
    session.run(*compile_lock, "pyproject.toml", "--group", "build", "-o", "locks/run.txt")
    session.run(*compile_lock, "pyproject.toml", "--group", "dev", "-o", "locks/dev.txt")
    session.run(*compile_lock, "pyproject.toml", "--group", "bench", "-o", "locks/bench.txt")
    session.run("cpuwheels", "lock")
