"""Fixtures for every test."""

from __future__ import annotations

import io
import os
import platform
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from rich.console import Console

from contexts import build_context
from cpuwheels.config import paths
from cpuwheels.config.context import BuildContext
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store, default_root
from cpuwheels.toolchain.select import resolve_toolchain
from layout import ROOT
from loopback import Server
from pinned_root import pinned_root

# Started in the background, or by nohup, the tests would hand "ignored" on to every program that they interrupt.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

# How long an example takes, or its making, says what else the machine does.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")


@pytest.fixture
def project_root() -> Path:
    return ROOT


@pytest.fixture
def packaged(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the project's files in an installed package, which this code takes for its own."""
    package = tmp_path_factory.mktemp("site-packages") / "cpuwheels"
    shutil.copytree(ROOT / "locks", package / "data" / "locks")
    shutil.copyfile(ROOT / "matrix.yaml", package / "data" / "matrix.yaml")
    monkeypatch.setattr(paths, "PACKAGE", package)
    return package / "data"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture(scope="session")
def c_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A C compiler: the machine's own, else the pinned one, which `nox -s build-x86` unpacks as well."""
    if found := shutil.which("cc") or shutil.which("gcc"):
        return Path(found)
    folder = tmp_path_factory.mktemp("compiler")
    context = build_context(
        folder, options=BuildOptions(toolchain="debian"), store=Store(default_root()), reporter=Reporter("tests")
    )
    toolchain = resolve_toolchain(context)
    command = shlex.join([str(toolchain.cc), *toolchain.compile_flags, *toolchain.link_flags])
    wrapper = folder / "cc"
    wrapper.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


@pytest.fixture(scope="session")
def memgate(c_compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job launcher, compiled with warnings as errors."""
    program = tmp_path_factory.mktemp("memgate") / "memgate"
    sources = sorted((ROOT / "csrc/memgate").glob("*.c"))
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
    subprocess.run([c_compiler, "-std=c17", "-O2", *warnings, "-o", program, *sources], check=True)
    return program


@pytest.fixture(scope="session")
def nginx_root() -> Path:
    """The pinned nginx."""
    return pinned_root("nginx", "ccache")


@pytest.fixture(scope="session")
def cpuid_mask(c_compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that runs a command with a changed CPUID; `tests/helpers/cpuid_mask.c` says how."""
    if (platform.machine(), platform.system()) != ("x86_64", "Linux"):
        pytest.skip("CPUID faulting is Linux's on x86-64")
    program = tmp_path_factory.mktemp("cpuid") / "cpuid_mask"
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    source = ROOT / "tests" / "helpers" / "cpuid_mask.c"
    subprocess.run([c_compiler, "-std=c17", "-O2", *warnings, "-o", program, source], check=True)
    check = subprocess.run([program, "--check"], check=False, capture_output=True, text=True)
    if check.returncode != 0:
        pytest.skip(check.stdout.strip() + check.stderr.strip())
    return program


@pytest.fixture(scope="session")
def without_palette(cpuid_mask: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that runs a command on this processor's AMX with CPUID's description of its tiles out of sight."""
    if " amx_tile " not in f" {Path('/proc/cpuinfo').read_text().replace(chr(10), ' ')} ":
        pytest.skip("this CPU has no AMX")
    program = tmp_path_factory.mktemp("masked") / "masked"
    program.write_text(f'#!/bin/sh\nexec "{cpuid_mask}" --max-leaf 0x1c -- "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Address of a server that speaks S3."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415  (a second, which only tests of buckets should take)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def s3_client(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of that server, which the environment names, too."""
    import boto3  # noqa: PLC0415  (as above)

    settings = {"AWS_ENDPOINT_URL": s3_server, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    for name, value in (settings | {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}).items():
        monkeypatch.setenv(name, value)
    return boto3.client("s3", endpoint_url=s3_server)


@pytest.fixture
def story() -> io.StringIO:
    """What the reporter of a test has written."""
    return io.StringIO()


@pytest.fixture
def reporter(story: io.StringIO) -> Reporter:
    return Reporter("test", Console(file=story, width=200, force_terminal=False))


@pytest.fixture
def plain_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let git see nothing of what whoever runs the tests has configured."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Run a web server on this machine for one test."""
    # Certificates are of no use here, and reading them takes longer than all the rest of a test.
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with Server() as running:
        yield running


@pytest.fixture
def context(tmp_path: Path, store: Store, reporter: Reporter, logs: Path) -> BuildContext:
    """A run for the x86 target of this project's matrix."""
    return build_context(tmp_path, store=store, reporter=reporter, logs=logs)
