"""Provenance of a release of this project: the same for the same commit, and nothing that is taken for a wheel's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpuwheels.attestation.files import about
from cpuwheels.attestation.own_release import ANY_FILE, RELEASE_BUILD_TYPE, WHEELS, release_statement
from cpuwheels.attestation.sign import Signing, sign_statement
from cpuwheels.attestation.statement import check_build, check_statement
from cpuwheels.attestation.verify import Trust, verify_about, verify_provenance
from cpuwheels.cli.main import main
from cpuwheels.core.errors import ProvenanceError
from cpuwheels.pipeline.in_toto import ProvenanceStatement
from cpuwheels.pipeline.slsa import LOCAL_BUILDER, Platform
from sample_source import sha256

COMMIT, TOOLS = "c" * 40, "d" * 64


def statement(path: Path, repository: str = "", platform: Platform | None = None) -> ProvenanceStatement:
    return release_statement(
        path.name, sha256(path), version="0.1.0", commit=COMMIT, tools=TOOLS, repository=repository, platform=platform
    )


@pytest.fixture
def sdist(tmp_path: Path) -> Path:
    path = tmp_path / "cpuwheels-0.1.0.tar.gz"
    path.write_bytes(b"an sdist")
    return path


def test_what_it_says(sdist: Path) -> None:
    made = json.loads(statement(sdist).render())
    assert made["subject"] == [{"name": "cpuwheels-0.1.0.tar.gz", "digest": {"sha256": sha256(sdist)}}]
    assert made["predicate"] == {
        "buildDefinition": {
            "buildType": RELEASE_BUILD_TYPE,
            "externalParameters": {"version": "0.1.0"},
            "resolvedDependencies": [
                {
                    "name": "cpuwheels",
                    "digest": {"gitCommit": COMMIT},
                    "annotations": {"stage": "source", "version": "0.1.0"},
                },
                {"name": "locks/dev.txt", "digest": {"sha256": TOOLS}, "annotations": {"stage": "build-tools"}},
            ],
        },
        "runDetails": {"builder": {"id": LOCAL_BUILDER}},
    }


def test_a_platform_names_itself_its_run_and_the_repository(sdist: Path) -> None:
    made = statement(
        sdist, "https://example.org/a/b", Platform("https://example.org/w@refs/tags/v0.1.0", "https://example.org/7")
    )
    assert made.predicate.run_details.builder.id == "https://example.org/w@refs/tags/v0.1.0"
    assert made.predicate.run_details.metadata
    assert made.predicate.run_details.metadata.invocation_id == "https://example.org/7"
    assert (
        made.predicate.build_definition.resolved_dependencies[0].uri == "git+https://example.org/a/b@refs/tags/v0.1.0"
    )


def test_a_wheel_of_vllm_cannot_be_vouched_for_so(wheel: Path, key: Path) -> None:
    """An index and a rebuild take statements of how a wheel was built, and no others."""
    content = statement(wheel).render()
    for check in (check_statement, check_build):
        assert check(content, wheel.name, sha256(wheel), "here", ANY_FILE)
        with pytest.raises(ProvenanceError, match=f"its build type is {RELEASE_BUILD_TYPE}"):
            check(content, wheel.name, sha256(wheel), "here")
    sign_statement(wheel, content, Signing(key=str(key)))
    trust = Trust(keys=(Path(f"{key}.pub"),))
    with pytest.raises(ProvenanceError, match="its build type is"):
        verify_about(about(wheel), wheel.name, sha256(wheel), trust, wheel.parent)


def test_parameters_of_a_wheel_are_none_of_a_release(sdist: Path) -> None:
    made = json.loads(statement(sdist).render())
    made["predicate"]["buildDefinition"]["externalParameters"]["target"] = "x86"
    with pytest.raises(ProvenanceError, match="does not know: target"):
        check_statement(json.dumps(made).encode(), sdist.name, sha256(sdist), "here", ANY_FILE)
    assert WHEELS.items() <= ANY_FILE.items()


def test_it_is_verified_like_a_wheels(sdist: Path, key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sign_statement(sdist, statement(sdist).render(), Signing(key=str(key)))
    assert verify_provenance(sdist, Trust(keys=(Path(f"{key}.pub"),))).statement == statement(sdist)
    with pytest.raises(SystemExit) as ended:
        main(["verify-provenance", str(sdist), "--key", f"{key}.pub"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "asked for: version 0.1.0\n" in out
    assert f"source: cpuwheels 0.1.0 gitCommit {COMMIT}" in out
    assert "build-tools: 1 file, with its digest\n" in out
    sdist.write_bytes(b"another")
    with pytest.raises(ProvenanceError, match="it is about"):
        verify_provenance(sdist, Trust(keys=(Path(f"{key}.pub"),)))
