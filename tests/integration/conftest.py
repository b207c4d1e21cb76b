"""The tiny stand-in, built by the whole pipeline with the real compiler and the real torch."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock

from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.entry_links import link_entries
from cpuwheels.core.filesystem import remove_tree
from cpuwheels.core.store import Store, default_root
from cpuwheels.core.trust import Trust
from cpuwheels.environment.torch_environment import torch_environment
from cpuwheels.pipeline.context import open_context
from cpuwheels.toolchain.native_helpers import cpu_at_hand
from cpuwheels.toolchain.select import resolve_toolchain
from cpuwheels.verification.onednn_isa import onednn_limit
from install_web import Web, serve_web
from layout import ROOT
from tiny_project import Tiny, make_repository, make_sdist

if TYPE_CHECKING:
    from cpuwheels.config.context import BuildContext
    from cpuwheels.environment.sealed_env import Environment
    from cpuwheels.toolchain.result import Toolchain

HERE = Path(__file__).parent


def start(paths: Paths) -> BuildContext:
    """Return a run of a project's x86 target."""
    matrix = load_matrix(paths.root)
    return open_context(paths, matrix, matrix.target("x86"), BuildOptions(), Reporter("x86"))


@pytest.fixture(scope="session", autouse=True)
def onednn_held_back() -> Iterator[None]:
    """Let programs of the tests that run torch live on a CPU that hides AMX's tiles, as this project's own do."""
    cpu = cpu_at_hand(Store(default_root()))
    limit = onednn_limit(cpu, os.environ) if cpu else None
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (limit.environment() if limit else {}).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def cache() -> Iterator[Path]:
    """Stores of the tests alone: compiler and environment stay from run to run, everything built is made anew."""
    root = default_root() / "tests"
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / "in-use.lock"):
        for kind in ("compiler-cache", "kernels", "measured", "prepared", "reads", "sources", "work"):
            remove_tree(root / kind)
        for trust in Trust:
            if trust.value:
                remove_tree(root / trust.value)
        link_entries(default_root(), ["downloads"], root)
        yield root


@pytest.fixture(scope="session")
def web(nginx_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """An index of wheels, and one that package managers take for PyTorch's."""
    with serve_web(nginx_root, tmp_path_factory.mktemp("web")) as served:
        yield served


@pytest.fixture(scope="session")
def tiny(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    base = tmp_path_factory.mktemp("tiny")
    root = base / "project"
    for name in ("cmake", "csrc", "locks", "tests/parity"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copytree(HERE / "tiny_root" / "patches", root / "patches")
    sdist = make_sdist(HERE / "tiny", base / "vllm-0.1.0.tar.gz")
    repository, commit = make_repository(HERE / "tiny_onednn", base / "onednn")
    text = (HERE / "tiny_root" / "matrix.yaml").read_text()
    for name, value in {
        "SDIST": sdist,
        "SHA256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
        "SIZE": sdist.stat().st_size,
        "REPOSITORY": repository,
        "COMMIT": commit,
    }.items():
        text = text.replace(f"@{name}@", str(value))
    (root / "matrix.yaml").write_text(text)
    return Tiny(root, HERE / "tiny", base / "dist", cache)


@pytest.fixture(scope="session")
def tiny_python(tiny: Tiny) -> Path:
    """The interpreter with the real torch that x86's wheels are built for; the store has others with stand-ins."""
    return torch_environment(start(Paths(tiny.root, tiny.cache, tiny.dist)), "2.13.0").python


@pytest.fixture(scope="session")
def tiny_wheel(tiny: Tiny) -> Path:
    """The stand-in's wheel, built from its sdist."""
    return tiny.build()


@pytest.fixture(scope="session")
def this(tmp_path_factory: pytest.TempPathFactory) -> BuildContext:
    """A run of this project, with the stores that people use."""
    return start(Paths(ROOT, default_root(), tmp_path_factory.mktemp("dist")))


@pytest.fixture(scope="session")
def environment(this: BuildContext) -> Environment:
    """Python with the real torch."""
    return torch_environment(this, "2.13.0")


@pytest.fixture(scope="session")
def toolchain(this: BuildContext) -> Toolchain:
    """The real compiler."""
    return resolve_toolchain(this)
