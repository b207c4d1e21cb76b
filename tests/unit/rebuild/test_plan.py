"""How a wheel is rebuilt: what it may say, and everything that it may not."""

from __future__ import annotations

from typing import Any

import pytest

from cpuwheels.core.errors import RebuildError
from cpuwheels.pipeline.in_toto import (
    BuildDefinition,
    Builder,
    ProvenanceStatement,
    ResourceDescriptor,
    RunDetails,
    SlsaProvenance,
    Subject,
)
from cpuwheels.pipeline.slsa import BUILD_TYPE, LOCAL_BUILDER
from cpuwheels.rebuild.plan import RebuildPlan, plan_rebuild
from published_wheels import CODE, COMMIT, MATRIX, SDIST, published_note
from wheel_notes import wheel_note

ASKED = {"target": "x86", "source": "0.32.0", "toolchain": "auto", "locked": False}


def descriptor(stage: str, name: str, digest: dict[str, str] | None, **more: object) -> ResourceDescriptor:
    uri = None if digest else "urn:cpuwheels:key:1"
    return ResourceDescriptor(name=name, uri=uri, digest=digest, annotations={"stage": stage, **more})


PROGRAM = descriptor("cpuwheels", "cpuwheels", {"gitCommit": COMMIT}, contentKey=CODE, version="1.2")
DEPENDENCIES = (
    descriptor("source", "vllm", {"sha256": SDIST}),
    descriptor("toolchain", "gcc", {"sha256": "9" * 64}),
    PROGRAM,
    descriptor("cpuwheels", "matrix.yaml", {"sha256": MATRIX}),
)


def statement(asked: Any = None, dependencies: tuple[ResourceDescriptor, ...] = DEPENDENCIES) -> ProvenanceStatement:
    definition = BuildDefinition(
        build_type=BUILD_TYPE, external_parameters=ASKED | (asked or {}), resolved_dependencies=dependencies
    )
    details = RunDetails(builder=Builder(id=LOCAL_BUILDER))
    predicate = SlsaProvenance(build_definition=definition, run_details=details)
    return ProvenanceStatement(subject=(Subject(name="a", digest={"sha256": "0"}),), predicate=predicate)


def plan(asked: Any = None, dependencies: Any = DEPENDENCIES, commit: str | None = None, **note: object) -> RebuildPlan:
    given = wheel_note(**published_note(**note))  # type: ignore[arg-type]
    return plan_rebuild(given, statement(asked, dependencies), commit, "a.whl")


def test_a_release_that_is_pinned_as_a_whole_is_rebuilt_locked() -> None:
    found = plan()
    assert found.arguments() == [
        *("build", "x86", "--source", "0.32.0", "--toolchain", "debian", "--sha256", SDIST, "--locked"),
        *("--compiler-cache", "off", "--sandbox-required", "--no-summary"),
    ]
    assert (found.program.commit, found.program.code, found.program.matrix) == (COMMIT, CODE, MATRIX)
    assert found.remarks == ()


def test_options_that_change_the_bytes_are_taken_over() -> None:
    found = plan({"debugSymbols": True, "upstreamKernels": True, "sourceDateEpoch": 7}, upstream_kernels=True)
    assert {"--debug-symbols", "--upstream-kernels"} <= set(found.arguments())
    assert "--upstream-speed" not in found.arguments()
    assert found.asked.source_date_epoch == 7
    assert "--upstream-speed" in plan({"upstreamSpeed": True}, upstream_speed=True).arguments()


def test_a_commit_has_no_digest_of_an_sdist() -> None:
    source = {"version": "0.33.0.dev1", "digest": "s", "epoch": 5, "commit": "1" * 40}
    found = plan({"source": "1" * 40}, source=source)
    assert found.arguments()[:4] == ["build", "x86", "--source", "1" * 40]
    assert "--sha256" not in found.arguments()


def test_what_is_not_pinned_is_rebuilt_without_locked_and_told() -> None:
    loose = (*DEPENDENCIES, descriptor("torch", "torch", None))
    found = plan(None, loose)
    assert "--locked" not in found.arguments()
    assert any("torch" in remark for remark in found.remarks)
    assert "--locked" in plan({"locked": True}).arguments()
    assert "--allow-fallbacks" in plan({"locked": True, "allowFallbacks": True}).arguments()
    assert "--allow-fallbacks" not in plan({"locked": True}).arguments()
    assert "--locked" not in plan(alternates=("torch of Debian",)).arguments()


def test_a_compiler_of_the_machine_is_told() -> None:
    host = (descriptor("toolchain", "GNU", None), *DEPENDENCIES[2:])
    found = plan(None, host, toolchain={"version": "GNU 15.2", "digest": "t"})
    assert found.toolchain == "host"
    assert any("GNU 15.2" in remark for remark in found.remarks)


def test_kernels_of_another_wheel_are_compiled_all_the_same() -> None:
    found = plan({"kernelsFrom": "vllm-1-py3-none-any.whl"})
    assert not any("kernels-from" in argument for argument in found.arguments())
    assert any("vllm-1-py3-none-any.whl" in remark for remark in found.remarks)


def test_without_a_statement_the_user_says_which_program() -> None:
    note = wheel_note(**published_note())  # type: ignore[arg-type]
    found = plan_rebuild(note, None, COMMIT, "a.whl")
    assert (found.program.commit, found.program.code) == (COMMIT, "")
    assert "--locked" not in found.arguments()
    assert any("no statement" in remark for remark in found.remarks)
    with pytest.raises(RebuildError, match="nothing says which commit of cpuwheels"):
        plan_rebuild(note, None, None, "a.whl")


def test_a_changed_checkout_has_no_commit() -> None:
    changed = (*DEPENDENCIES[:2], descriptor("cpuwheels", "cpuwheels", None))
    with pytest.raises(RebuildError, match="it was a changed checkout"):
        plan(None, changed)
    with pytest.raises(RebuildError, match=f"says that the cpuwheels of commit {COMMIT} built it"):
        plan(commit="1" * 40)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"target": "../x"}, "the parameter target"),
        ({"target": "arm"}, "its statement has the target 'arm', its cpuwheels.json 'x86'"),
        ({"source": "0.31.0"}, "has the source '0.31.0'"),
        ({"source": "--repo=/etc"}, "has the source"),
        ({"toolchain": "--memory"}, "the parameter toolchain"),
        ({"locked": "yes"}, "the parameter locked"),
        ({"debugSymbols": 1}, "the parameter debugSymbols"),
        ({"upstreamKernels": True}, "has the upstreamKernels True"),
        ({"sourceDateEpoch": -1}, "the parameter sourceDateEpoch"),
        ({"sourceDateEpoch": 1 << 40}, "the parameter sourceDateEpoch"),
        ({"repo": "https://evil.example"}, "the parameter repo"),
        ({"target": 3}, "the parameter target"),
    ],
)
def test_other_parameters_are_refused(asked: dict[str, object], why: str) -> None:
    with pytest.raises(RebuildError, match=r"the wheel is refused: .*") as caught:
        plan(asked)
    assert why in caught.value.what


@pytest.mark.parametrize(
    ("source", "asked", "why"),
    [
        ({"digest": "5"}, {}, "no sha256"),
        ({"epoch": -1}, {}, "seconds after 1970"),
        ({"epoch": 1 << 60}, {}, "seconds after 1970"),
        ({"sdist": False, "commit": "main"}, {"source": "main"}, "no full hash"),
        ({"sdist": False, "commit": "--upload-pack=x"}, {"source": "--upload-pack=x"}, "no full hash"),
        ({"sdist": False}, {"source": "local tree"}, "a folder of somebody's machine"),
    ],
)
def test_other_sources_are_refused(source: dict[str, object], asked: dict[str, object], why: str) -> None:
    facts = published_note()["source"] | source
    with pytest.raises(RebuildError, match=why):
        plan(asked, source=facts)
