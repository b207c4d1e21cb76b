"""The compiler cache: what it gives back is what the compiler would have made, precompiled headers included."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.trust import Trust
from cpuwheels.kernels.ccache.settings import was_hit
from cpuwheels.kernels.memory.ledger import read_records
from tiny_project import EPOCH, Tiny, forget, make_sdist

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CMAKES_OWN = "cmTC_"
"""In the names of what CMake compiles to learn about the compiler."""

HEADER = "#pragma once\n#define FLAVOUR {flavour}\n"
LARGE = 2**21
"""A result of more bytes is a precompiled header with parts of torch."""
TREES = Trust.LOCAL.value
OPERATOR = 'm.def("flavour() -> int", [] { return static_cast<int64_t>(FLAVOUR); });\n}\n'


def with_header(tiny: Tiny, folder: Path, flavour: int) -> Path:
    """Return a copy of the sources with an operator that returns a macro of the precompiled header."""
    tree = tiny.changed_tree(folder)
    kernel = tree / "csrc" / "cpu" / "ops.cpp"
    text = kernel.read_text().partition("\n")[2]  # the same text in every folder
    kernel.write_text(text.rstrip().removesuffix("}") + OPERATOR)
    (tree / "csrc" / "cpu" / "flavour.h").write_text(HEADER.format(flavour=flavour))
    steps = tree / "cmake" / "cpu_extension.cmake"
    steps.write_text('include_directories("${CMAKE_SOURCE_DIR}/csrc")\n' + steps.read_text())
    for path in tree.rglob("*"):  # the newest file's time is the wheel's
        os.utime(path, (EPOCH, EPOCH))
    return tree


@pytest.fixture(scope="module")
def cached(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The tiny project with a precompiled header for both libraries, and an empty compiler cache."""
    base = tmp_path_factory.mktemp("cached")
    root = shutil.copytree(tiny.root, base / "project")
    matrix = root / "matrix.yaml"
    header = "torch/library.h,cpu/flavour.h"
    precompiled = f'      CPUWHEELS_PRECOMPILED: "_C={header};_C_AVX2={header}"\n'
    text = matrix.read_text().replace("    cpuinfo: tiny\n", precompiled + "    cpuinfo: tiny\n")
    matrix.write_text(text + "compiler_cache: {x86_64: ccache-amd64}\n")
    forget(tiny.cache, "compiler-cache")
    return dataclasses.replace(tiny, root=root, dist=base / "dist")


@dataclasses.dataclass(frozen=True)
class Built:
    """One build.

    Attributes:
        digest: Of the wheel.
        hits: Objects that came out of the cache.
        compiled: Objects that did not.
    """

    digest: str
    hits: set[str]
    compiled: set[str]


def large_results(tiny: Tiny) -> set[Path]:
    """Return the results in the cache of trees that are of precompiled headers."""
    results = (tiny.cache / TREES / "compiler-cache").rglob("*R")
    return {path for path in results if path.stat().st_size > LARGE}


def compiled_files(built: Built) -> list[str]:
    """Return the names of the objects that were compiled."""
    return sorted(name.rsplit("/", 1)[-1] for name in built.compiled)


def build(tiny: Tiny, tree: Path | None, *options: str, env: dict[str, str] | None = None) -> Built:
    """Build from sources whose kernels and oneDNN are not in the store; without a tree from the pinned release."""
    forget(tiny.cache, "kernels", "reads", "onednn-libraries")
    wheel = tiny.build(*(["--source", tree] if tree else []), *options, env=env)
    (kernels,) = (tiny.cache / (TREES if tree else "") / "kernels").iterdir()
    records = read_records(kernels / "jobs.jsonl")
    jobs = [job for job in records if job.source and CMAKES_OWN not in job.output]
    return Built(
        digest=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        hits={job.output for job in jobs if job.cached},
        compiled={job.output for job in jobs if not job.cached},
    )


@pytest.fixture(scope="module")
def first(cached: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The build that fills the cache."""
    return build(cached, with_header(cached, tmp_path_factory.mktemp("first") / "tree", 1))


def test_a_changed_macro_in_a_precompiled_header(cached: Tiny, first: Built, tmp_path: Path) -> None:
    assert not first.hits
    assert sum(name.endswith(".gch") for name in first.compiled) == 2
    tree = with_header(cached, tmp_path / "two", 2)
    # The same size and, in the copy that is compiled, the same time: only the content tells.
    os.utime(tree / "csrc" / "cpu" / "flavour.h", (0, 0))
    second = build(cached, tree)
    users = {name for name in first.compiled if "ops.cpp" in name or name.endswith(".gch")}
    assert second.compiled == users
    assert second.hits == first.compiled - users
    assert second.digest != first.digest
    assert second.digest == build(cached, tree, "--compiler-cache", "off").digest


def test_everything_is_had_again_and_nothing_learned_from_it(cached: Tiny, first: Built, tmp_path: Path) -> None:
    costs = cached.cache / TREES / "measured" / "x86.tsv"
    learned = costs.read_text()
    here = dataclasses.replace(cached, dist=tmp_path / "dist")  # a wheel with the same bytes would keep its report
    again = build(here, with_header(here, tmp_path / "again", 1))
    assert again.hits == first.compiled
    assert again.digest == first.digest
    objects = {line for line in learned.splitlines() if line.endswith((".o", ".gch"))}
    assert objects
    assert objects <= set(costs.read_text().splitlines())
    (report,) = here.dist.rglob("report.html")
    assert f"<b>{len(again.hits)} of " in report.read_text()
    record = json.loads(report.with_name("record.json").read_text())
    assert sum(was_hit(job["note"]) for job in record["files"] if CMAKES_OWN not in job["output"]) == len(again.hits)


def test_another_commit(cached: Tiny, first: Built, tmp_path: Path) -> None:
    tree = with_header(cached, tmp_path / "later", 1)
    spinloop = tree / "csrc" / "spinloop.cpp"
    spinloop.write_text("// changed\n" + spinloop.read_text())
    second = build(cached, tree)  # in a folder with another name: its key is another
    assert {name.rsplit("/", 1)[-1] for name in second.compiled} == {"spinloop.cpp.o"}
    assert second.hits == first.compiled - second.compiled


def test_a_precompiled_header_is_there_when_a_compiler_reads_it(cached: Tiny, first: Built, tmp_path: Path) -> None:
    """It comes out of the cache. If the cache has removed it, nobody misses it who does not read it."""
    tree = with_header(cached, tmp_path / "read", 1)
    spinloop, kernel = tree / "csrc" / "spinloop.cpp", tree / "csrc" / "cpu" / "ops.cpp"
    kernel.write_text("// read by two\n" + kernel.read_text())
    headers = large_results(cached)
    assert compiled_files(build(cached, tree)) == ["ops.cpp.o", "ops.cpp.o"]
    assert large_results(cached) == headers, "no header was compiled"
    for path in headers:
        path.unlink()
    spinloop.write_text("// reads none\n" + spinloop.read_text())
    assert compiled_files(build(cached, tree)) == ["spinloop.cpp.o"]
    assert not large_results(cached)
    kernel.write_text("// read by two again\n" + kernel.read_text())
    again = build(cached, tree)
    assert compiled_files(again) == ["ops.cpp.o", "ops.cpp.o"]
    assert len(large_results(cached)) == sum(name.endswith(".gch") for name in first.compiled) != 0
    assert again.digest == build(cached, tree, "--compiler-cache", "off").digest


@pytest.mark.parametrize("place", ["csrc/cpu", "csrc"])
def test_a_header_that_is_found_first_from_now_on(cached: Tiny, first: Built, tmp_path: Path, place: str) -> None:
    """ccache itself looks only at the files that were read; this one was not there. oneDNN does not look there."""
    tree = with_header(cached, tmp_path / "hiding", 1)
    hiding = "float tiny_multiply(float a, float b);\n#define tiny_multiply(a, b) (1 + tiny_multiply(a, b))\n"
    (tree / place / "tiny_dnnl.h").write_text(hiding)
    second = build(cached, tree)
    assert {name for name in first.compiled if "helper.cpp" in name} <= second.compiled
    assert second.hits == {name for name in first.compiled if "onednn-build" in name} != set()
    assert second.digest != first.digest
    assert second.digest == build(cached, tree, "--compiler-cache", "off").digest


def test_a_cache_in_a_shared_folder(cached: Tiny, tmp_path: Path) -> None:
    tree = with_header(cached, tmp_path / "shared", 3)
    env = {"CPUWHEELS_COMPILER_CACHE_REMOTE": f"file:{tmp_path}/objects"}
    own = build(cached, tree, env=env)
    assert {name for name in own.compiled if "ops.cpp" in name}
    release = pinned(cached, tree, tmp_path)
    sent = build(release, None, env=env)
    assert not sent.hits  # what anybody's source made was not sent, and its own cache is not the release's
    forget(cached.cache, "compiler-cache")  # as on another machine
    received = build(release, None, env=env)
    assert received.hits == sent.compiled
    assert received.digest == sent.digest
    forget(cached.cache, "compiler-cache")
    assert build(cached, tree, env=env).hits == sent.compiled  # reading from it is another thing


def test_a_tree_begins_with_what_releases_have_and_gives_them_nothing(cached: Tiny, tmp_path: Path) -> None:
    forget(cached.cache, "compiler-cache")
    tree = with_header(cached, tmp_path / "release", 5)
    release = pinned(cached, tree, tmp_path)
    made = build(release, None)
    releases = cached.cache / "compiler-cache"
    theirs = {path: path.read_bytes() for path in releases.rglob("*") if path.is_file()}
    spinloop = tree / "csrc" / "spinloop.cpp"
    spinloop.write_text("// changed\n" + spinloop.read_text())
    steps = tree / "CMakeLists.txt"
    steps.write_text(steps.read_text() + "\n# programs that no build had before\n")
    first = build(cached, tree)
    assert {name.rsplit("/", 1)[-1] for name in first.compiled} == {"spinloop.cpp.o"}
    assert first.hits == made.compiled - first.compiled
    assert first.digest == build(cached, tree, "--compiler-cache", "off").digest
    assert {path: path.read_bytes() for path in releases.rglob("*") if path.is_file()} == theirs


def pinned(tiny: Tiny, tree: Path, folder: Path) -> Tiny:
    """Return a project that pins a tree as its release."""
    root = shutil.copytree(tiny.root, folder / "pinned")
    sdist = make_sdist(tree, folder / "vllm-0.1.0.tar.gz")
    text = (root / "matrix.yaml").read_text()
    for key, value in {
        "urls": f'["file://{sdist}"]',
        "sha256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
        "size": sdist.stat().st_size,
    }.items():
        text = re.sub(rf"^      {key}: .*$", f"      {key}: {value}", text, count=1, flags=re.MULTILINE)
    (root / "matrix.yaml").write_text(text)
    return dataclasses.replace(tiny, root=root, dist=folder / "dist")


def test_a_shared_cache_behind_a_network_is_left_out(cached: Tiny, tmp_path: Path) -> None:
    """Compilers have none."""
    tree = with_header(cached, tmp_path / "network", 4)
    done = cached.run("build", "x86", "--source", tree, env={"CPUWHEELS_COMPILER_CACHE_REMOTE": "redis://127.0.0.1:1"})
    assert done.returncode == 0, done.stderr
    assert "the shared compiler cache (redis) is not used" in " ".join(done.stderr.split())
