"""The tiny stand-in, built by the whole pipeline with the real compiler and the real torch."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from tiny_project import PROJECT, Tiny, make_repository, make_sdist

from cpuwheels.storage import remove_tree
from cpuwheels.store import Store, default_root

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def cache() -> Iterator[Path]:
    """Stores of the tests alone: compiler and environment stay from run to run, everything built is made anew."""
    root = default_root() / "tests"
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / "in-use.lock"):
        for kind in ("compiler-cache", "kernels", "measured", "prepared", "reads", "sources", "work"):
            remove_tree(root / kind)
        Store(default_root()).share(["downloads"], root)
        yield root


@pytest.fixture(scope="session")
def tiny(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    base = tmp_path_factory.mktemp("tiny")
    root = base / "project"
    for name in ("cmake", "csrc", "locks"):
        shutil.copytree(PROJECT / name, root / name)
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
def tiny_wheel(tiny: Tiny) -> Path:
    """The stand-in's wheel, built from its sdist."""
    return tiny.build()
