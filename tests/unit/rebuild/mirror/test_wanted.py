"""What a mirror keeps of a wheel: by digest, from addresses that no statement chooses."""

from __future__ import annotations

from pathlib import Path

from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.matrix import load_matrix
from cpuwheels.pipeline.in_toto import ResourceDescriptor
from cpuwheels.rebuild.mirror.wanted import locked_packages, wanted_commits, wanted_files
from cpuwheels.rebuild.plan import Asked, ProgramFacts, RebuildPlan

MIRRORS = ("http://mirror.example/debian",)


def dependency(stage: str, name: str, digest: dict[str, str], location: str | None = None) -> ResourceDescriptor:
    return ResourceDescriptor(name=name, digest=digest, annotations={"stage": stage}, download_location=location)


def plan(root: Path, *dependencies: ResourceDescriptor, source: str = "0.32.0", sdist: bool = True) -> RebuildPlan:
    release = load_matrix(root).release(source)
    return RebuildPlan(
        asked=Asked(target="x86", source=source),
        program=ProgramFacts("c" * 40),
        sdist=release.sdist.sha256 if release and sdist else "",
        toolchain="debian",
        locked=True,
        dependencies=dependencies,
    )


def test_what_a_build_may_download_is_wanted_with_the_wheels_own_source(project_root: Path) -> None:
    matrix = load_matrix(project_root)
    found = wanted_files(plan(project_root), project_root, matrix, MIRRORS)
    stages = {one.stage for one in found}
    assert {"toolchain", "sysroot", "build-tools", "sandbox", "licences", "tcmalloc", "torch", "source"} <= stages
    (source,) = [one for one in found if one.stage == "source"]
    assert (source.name, source.sha256) == ("vllm-0.32.0.tar.gz", matrix.release("0.32.0").sdist.sha256)  # type: ignore[union-attr]
    assert source.urls[0].startswith("https://files.pythonhosted.org/")
    compiler = next(one for one in found if one.name.startswith("g++-15-x86-64"))
    assert compiler.urls[0].startswith("http://mirror.example/debian/pool/")
    assert compiler.project is None
    tool = next(one for one in found if one.name.startswith("cmake-"))
    assert tool.project == "cmake"
    assert len({one.sha256 for one in found}) == len(found)


def test_what_the_wheel_was_made_from_is_needed_and_the_rest_is_not(project_root: Path) -> None:
    matrix = load_matrix(project_root)
    every = wanted_files(plan(project_root), project_root, matrix, MIRRORS)
    used = next(one for one in every if one.stage == "toolchain")
    given = plan(project_root, dependency("toolchain", "gcc", {"sha256": used.sha256}))
    found = {one.sha256: one for one in wanted_files(given, project_root, matrix, MIRRORS)}
    assert found[used.sha256].needed
    assert not any(one.needed for one in found.values() if one.stage == "sysroot")
    assert found[given.sdist].needed


def test_an_address_of_a_statement_is_not_taken(project_root: Path) -> None:
    evil = dependency("other", "evil.deb", {"sha256": "6" * 64}, "https://evil.example/evil.deb")
    found = wanted_files(plan(project_root, evil), project_root, load_matrix(project_root), MIRRORS)
    (one,) = [each for each in found if each.sha256 == "6" * 64]
    assert one.urls == ()
    assert not any("evil.example" in url for each in found for url in each.urls)


def test_what_another_lock_names_has_its_address(project_root: Path) -> None:
    matrix = load_matrix(project_root)
    package = load_lock(project_root, "gcc-14-s390x").packages[0]
    given = plan(project_root, dependency("toolchain", package.name, {"sha256": package.sha256}))
    found = {one.sha256: one for one in wanted_files(given, project_root, matrix, MIRRORS)}
    assert found[package.sha256].urls[0] == f"{MIRRORS[0]}/{package.path}"


def test_commits_are_those_of_the_matrix_and_the_source(project_root: Path) -> None:
    matrix = load_matrix(project_root)
    found = wanted_commits(plan(project_root), matrix)
    assert [one.kind for one in found] == ["onednn"]
    assert found[0].commit == matrix.onednn["v3.13"].commit
    assert not found[0].needed
    commit = plan(project_root, source="1" * 40, sdist=False)
    first, *_ = wanted_commits(commit, matrix)
    assert (first.kind, first.commit) == ("vllm", "1" * 40)


def test_all_packages_of_the_programs_lock_are_found(project_root: Path) -> None:
    found = {one.project: one for one in locked_packages(project_root)}
    assert {"pydantic", "pydantic-core", "scikit-build-core", "uv"} <= found.keys()
    assert all(one.digests for one in found.values())
    lines = (project_root / "locks/run.txt").read_text().splitlines()
    assert len(found) == sum("==" in line and not line.startswith((" ", "#")) for line in lines)
