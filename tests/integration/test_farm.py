"""Wheels of the small project made by a farm of two workers, and the same ones made by one machine.

Both compile the kernels that two commits share by `cpuwheels.pipeline.kernels_alone`.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuwheels.core.sealed_entry import sealed_origin
from tiny_farm import tiny_farm
from tiny_project import Tiny, commit_all

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def commits(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A clone with a release, two commits that change Python files alone, and one that changes a kernel."""
    folder = tmp_path_factory.mktemp("clone") / "vllm"
    shutil.copytree(tiny.tree, folder)
    (folder / "PKG-INFO").unlink()
    found = [commit_all(folder, "release", tag="v0.1.0")]
    for number in (1, 2):
        (folder / "vllm" / f"part{number}.py").write_text(f"number = {number}\n")
        found.append(commit_all(folder, f"change {number}"))
    kernel = folder / "csrc" / "cpu" / "ops.cpp"
    kernel.write_text(f"// changed\n{kernel.read_text()}")
    found.append(commit_all(folder, "change 3"))
    return folder, found


@pytest.fixture(scope="module")
def farm(
    tiny: Tiny, commits: tuple[Path, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, Path]]:
    """The address of a farm, its certificates, and the folder of its workers."""
    with tiny_farm(tiny, tmp_path_factory.mktemp("farm"), commits[0]) as farm:
        yield farm


def digests(dist: Path) -> dict[str, str]:
    return {
        path.parent.relative_to(dist).as_posix(): json.loads(path.read_text())["wheel"]["sha256"]
        for path in dist.glob("x86/*/record.json")
    }


def test_a_farm_makes_the_same_wheels_as_one_machine(
    tiny: Tiny, commits: tuple[Path, list[str]], farm: tuple[str, Path, Path], tmp_path: Path
) -> None:
    clone, names = commits
    address, keys, folder = farm
    here = dataclasses.replace(tiny, dist=tmp_path / "here")
    there = dataclasses.replace(tiny, dist=tmp_path / "there")
    words = ("batch", "x86", "--since", names[0], "--repo", clone)

    done = here.run(*words)
    assert done.returncode == 0, done.stderr
    assert "kernels x86" in done.stderr, "two of the commits have the same kernels"
    done = there.run(*words, "--farm", address, "--farm-keys", keys)
    assert done.returncode == 0, done.stderr
    wheels = [Path(line) for line in done.stdout.splitlines() if line.endswith(".whl")]
    assert len(wheels) == 3
    assert all(wheel.is_file() for wheel in wheels)
    assert len(digests(here.dist)) == 3
    assert digests(there.dist) == digests(here.dist)
    assert not list(folder.glob("*/work/*/dist")), "what was carried home is not kept"
    audits = Counter(json.loads(path.read_text())["wheel"]["audit"] for path in there.dist.glob("x86/*/record.json"))
    (shared,) = [audit for audit, count in audits.items() if count == 2]
    made = [entry for entry in folder.rglob(f"audited/{shared}") if sealed_origin(entry) is None]
    assert len(made) == 1, "whoever packs a wheel of these kernels gets their audit with them"

    # What is there is not made again, by whomever.
    done = there.run(*words, "--farm", address, "--farm-keys", keys)
    assert done.returncode == 0, done.stderr
    assert "0 jobs; of 4 there are 3 already" in done.stderr
    done = there.run(*words)
    assert done.returncode == 0, done.stderr
    assert "0 jobs; of 4 there are 3 already" in done.stderr
    next(there.dist.glob("x86/*/*.whl")).write_bytes(b"damaged")
    done = there.run(*words)
    assert done.returncode == 0, done.stderr
    assert digests(there.dist) == digests(here.dist)


def test_a_bisection_on_a_farm_finds_what_one_machine_finds(
    tiny: Tiny, commits: tuple[Path, list[str]], farm: tuple[str, Path, Path], tmp_path: Path
) -> None:
    clone, names = commits
    address, keys, _ = farm
    there = dataclasses.replace(tiny, dist=tmp_path / "there")
    check = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm.part2') is not None)"
    words = ("bisect", "--repo", clone, "--good", "0.1.0", "--bad", "main", "--no-requirements")
    run = ("--run", f'python -c "{check}"', "--commits-at-once", "4", "--farm", address, "--farm-keys", keys)
    done = there.run(*words, *run, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["first_bad"] == names[2]
    assert {probe["wheel_from"] for probe in result["probes"]} == {"farm"}
    assert not list(there.dist.glob("x86/*")), "wheels are in the bisection's own folders"
    wheels = sorted((tmp_path / "out").glob("*/x86/*/*.whl"))
    assert len(wheels) == len(result["probes"])

    # The same again, by this machine: the verdicts are those of the farm's wheels.
    done = there.run(*words, *run[:2], "--out", tmp_path / "alone")
    assert done.returncode == 0, done.stderr
    alone = json.loads((tmp_path / "alone" / "result.json").read_text())
    assert alone["first_bad"] == names[2]
    ours = {probe["commit"]: probe["sha256"] for probe in alone["probes"]}
    theirs = {probe["commit"]: probe["sha256"] for probe in result["probes"]}
    both = ours.keys() & theirs.keys()
    assert len(both) >= 2
    assert {name: ours[name] for name in both} == {name: theirs[name] for name in both}
