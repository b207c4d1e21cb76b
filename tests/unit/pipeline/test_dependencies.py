"""What a build used, each by its digest: of a locked build every one has a digest."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contexts import build_context
from cpuwheels.config import paths as places
from cpuwheels.config.context import BuildContext
from cpuwheels.config.debian_lock import load_lock
from cpuwheels.config.download_lists import target_downloads
from cpuwheels.config.downloads import Download
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.elsewhere import Origin
from cpuwheels.environment.sealed_env import Environment
from cpuwheels.kernels.tcmalloc import Tcmalloc
from cpuwheels.pipeline import dependencies as module
from cpuwheels.pipeline.dependencies import Used, dependencies
from cpuwheels.pipeline.inputs import Inputs
from cpuwheels.source.acl import Acl
from cpuwheels.source.onednn import OneDnn
from cpuwheels.source.patched import PreparedSource
from cpuwheels.source.patches import AppliedPatch
from cpuwheels.source.result import Source
from kernel_request import environment, toolchain

SDIST = "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112"
COMMIT = "c" * 40
PLACE = Path("/store")
RELEASE = "0cc51ca26c1af6a2bb1e71e378e7046f3ceb3e71791ee9d4e246d50f904a6ea6"
"""Of oneDNN 3.7.2, as the matrix pins it."""

PATCHES = (AppliedPatch("0001-a.patch", "1" * 64, "applied"), AppliedPatch("0002-b.patch", "2" * 64, "upstream"))


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


@pytest.fixture
def run(tmp_path: Path, project_root: Path, matrix: Matrix, reporter: Reporter) -> BuildContext:
    made = build_context(tmp_path / "cache", matrix.target("x86"), root=project_root, reporter=reporter)
    return replace(made, matrix=matrix)


def source(**changes: Any) -> Source:
    made = Source("0.33.0", PLACE, SDIST, 5, "an sdist", "release", released=True)
    return replace(made, **changes)


def tools(tmp_path: Path, **changes: Any) -> Environment:
    site = tmp_path / "site-packages"
    for name, tag in (("cmake-4.4.4", "py3-none-manylinux_2_17_x86_64\nTag: py3-none-manylinux2014_x86_64"),):
        (site / f"{name}.dist-info").mkdir(parents=True, exist_ok=True)
        (site / f"{name}.dist-info" / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
    (site / "torch-2.13.0+cpu.dist-info").mkdir(exist_ok=True)
    made = replace(environment(), site_packages=site, torch_version="2.13.0+cpu", torch_pinned=True)
    return replace(made, python_version="3.11", torch_alternate=False, **changes)


def used(tmp_path: Path, of: Source | None = None, kind: str = "debian", **changes: Any) -> Used:
    inputs = {
        "source": of or source(),
        "prepared": PreparedSource("0.33.0", PLACE, 5, PATCHES),
        "environment": tools(tmp_path),
        "onednn": OneDnn(PLACE, "v3.13", "3.7.2", RELEASE, "alternate"),
        "acl": None,
    }
    return Used(
        Inputs(**(inputs | changes)),  # type: ignore[arg-type]
        toolchain(kind=kind),
        Tcmalloc(**dict.fromkeys(Tcmalloc.__dataclass_fields__, "")),  # type: ignore[arg-type]
    )


def by_stage(found: tuple[Download, ...]) -> dict[str, list[Download]]:
    stages: dict[str, list[Download]] = {}
    for one in found:
        stages.setdefault(one.stage, []).append(one)
    return stages


def test_of_pinned_inputs_every_one_has_a_digest(run: BuildContext, tmp_path: Path) -> None:
    found = dependencies(run, used(tmp_path))
    without = [one.name for one in found if not one.digest and one.name != "cpuwheels"]
    assert without == []
    stages = by_stage(found)
    assert stages["source"][0].location.endswith("vllm-0.33.0.tar.gz")
    assert [one.name for one in stages["patch"]] == ["patches/0001-a.patch"]
    assert len(stages["toolchain"]) > 10
    assert len(stages["sysroot"]) > 5
    assert [one.version for one in stages["onednn"]] == ["3.7.2"]
    assert stages["torch"][0].digest == {"sha256": "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"}
    assert [one.name for one in stages["build-tools"]] == [
        "cmake-4.4.4-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    ]
    assert [one.name for one in stages["cpuwheels"]] == ["cpuwheels", "matrix.yaml"]


def test_what_is_used_is_in_the_list_of_what_may_be_downloaded(run: BuildContext, tmp_path: Path) -> None:
    listed = target_downloads(run.root, run.matrix, run.target).downloads
    known = {tuple(one.digest.items()) for one in listed}
    own = {"patch", "cpuwheels", "torch"}  # of this project, and another version's torch
    for one in dependencies(run, used(tmp_path)):
        assert one.stage in own or tuple(one.digest.items()) in known, one.name


def test_a_commit_is_named_by_its_hash_and_by_its_repository_if_that_is_known(
    run: BuildContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = source(commit=COMMIT, released=False, digest="d" * 64)
    first = dependencies(run, used(tmp_path, commit))[0]
    assert (first.digest, first.uri) == ({"gitCommit": COMMIT}, f"git+{run.matrix.repositories[0]}@{COMMIT}")
    cloned = replace(run, options=BuildOptions(repo=PLACE))
    assert dependencies(cloned, used(tmp_path, commit))[0].uri == ""
    monkeypatch.setenv("CPUWHEELS_VLLM_REPO", "/somewhere")
    assert dependencies(run, used(tmp_path, commit))[0].uri == ""


def test_what_is_not_pinned_has_a_key_and_no_digest(run: BuildContext, tmp_path: Path) -> None:
    loose = replace(tools(tmp_path), torch_pinned=False, torch_digest="h" * 24)
    given = used(tmp_path, source(released=False, digest="t" * 64), "host", environment=loose)
    stages = by_stage(dependencies(run, given))
    for stage, key in (("source", "t" * 64), ("torch", "h" * 24), ("toolchain", toolchain().digest)):
        (one,) = stages[stage]
        assert (one.key, one.digest) == (key, {})


def test_of_a_mac_zig_is_listed_whoever_compiles(run: BuildContext, tmp_path: Path) -> None:
    mac = replace(run, target=run.matrix.target("macos"))
    for kind in ("zig", "host"):
        found = by_stage(dependencies(mac, used(tmp_path, kind=kind)))
        assert any(one.name.startswith("ziglang-") and one.digest for one in found["toolchain"])
        assert [one.key for one in found["toolchain"] if not one.digest] == (
            [toolchain().digest] if kind == "host" else []
        )
        assert {one.name for one in found["sysroot"]} == {
            package.name for package in load_lock(run.root, "python-headers-arm64").packages
        }
        assert "licences" not in found


def test_debians_torch_is_its_packages(run: BuildContext, tmp_path: Path) -> None:
    given = used(tmp_path, environment=replace(tools(tmp_path), torch_alternate=True, torch_version="2.14.1"))
    found = by_stage(dependencies(run, given))["torch"]
    assert "python3-torch" in {one.name for one in found} or "libtorch2.14" in {one.name for one in found}
    assert all(one.digest for one in found)


def test_commits_of_onednn_and_of_arms_library(run: BuildContext, tmp_path: Path) -> None:
    onednn = OneDnn(PLACE, "v3.13", COMMIT, COMMIT, "pinned", patches=(AppliedPatch("o.patch", "3" * 64, "applied"),))
    acl = Acl(PLACE, "v52.6.0", "a" * 40, "tag", {})
    stages = by_stage(dependencies(run, used(tmp_path, onednn=onednn, acl=acl)))
    assert stages["onednn"][0].uri == f"git+https://github.com/uxlfoundation/oneDNN.git@{COMMIT}"
    assert stages["acl"][0].digest == {"gitCommit": "a" * 40}
    assert [one.name for one in stages["patch"]] == ["patches/0001-a.patch", "patches/o.patch"]


def test_kernels_of_another_wheel_are_that_wheel(run: BuildContext, tmp_path: Path) -> None:
    given = used(tmp_path)
    donor: Any = type("D", (), {"wheel": Path("/a/vllm-1.whl"), "sha256": "9" * 64})
    stages = by_stage(dependencies(run, Used(given.inputs, donor=donor)))
    assert [(one.name, one.digest) for one in stages["kernels"]] == [("vllm-1.whl", {"sha256": "9" * 64})]
    assert not stages.keys() & {"toolchain", "sysroot", "onednn", "tcmalloc"}


@pytest.mark.parametrize("shared", [True, False])
def test_kernels_of_a_shared_store_are_named_by_their_object(run: BuildContext, tmp_path: Path, shared: bool) -> None:
    origin = Origin("https://host/store", "9" * 64, "key") if shared else None
    kernels: Any = type("K", (), {"key": "k" * 24, "origin": origin})
    given = replace(used(tmp_path), kernels=kernels)
    found = [(one.name, one.digest) for one in by_stage(dependencies(run, given)).get("kernels", [])]
    assert found == ([(f"kernels {'k' * 24} of a shared store", {"sha256": "9" * 64})] if shared else [])
    assert "toolchain" in by_stage(dependencies(run, given)), "their key names the compiler all the same"


def test_another_matrix_and_a_changed_checkout_are_told(
    run: BuildContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = module.find_checkout(run.root)
    assert checkout
    for changed in (False, True):
        monkeypatch.setattr(module, "find_checkout", lambda _, c=changed: replace(checkout, changed=c))
        own, _ = by_stage(dependencies(run, used(tmp_path)))["cpuwheels"]
        assert own.digest == ({} if changed else {"gitCommit": checkout.commit})
        assert own.key
    other = tmp_path / "matrix.yaml"
    shutil.copy(run.paths.matrix, other)
    other.write_text(other.read_text() + "\n")
    _, before = by_stage(dependencies(run, used(tmp_path)))["cpuwheels"]
    _, after = by_stage(dependencies(replace(run, paths=replace(run.paths, other_matrix=other)), used(tmp_path)))[
        "cpuwheels"
    ]
    assert before.digest != after.digest
    assert after.name == places.MATRIX


def test_a_repository_of_this_machine_is_not_named(run: BuildContext, tmp_path: Path) -> None:
    pin = run.matrix.onednn["v3.13"].model_copy(update={"repositories": ("/home/me/oneDNN", "https://a.org/b")})
    matrix = run.matrix.model_copy(update={"onednn": {"v3.13": pin}, "repositories": ("/home/me/vllm",)})
    onednn = OneDnn(PLACE, "v3.13", COMMIT, COMMIT, "pinned")
    commit = source(commit=COMMIT, released=False)
    found = dependencies(replace(run, matrix=matrix), used(tmp_path, commit, onednn=onednn))
    assert [one.uri for one in found if one.digest == {"gitCommit": COMMIT}] == ["", f"git+https://a.org/b@{COMMIT}"]
    assert "/home/me" not in "".join(one.model_dump_json() for one in found)
