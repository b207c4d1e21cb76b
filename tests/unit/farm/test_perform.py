"""Jobs as commands of this program: with which options, where, and what is left."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cpuwheels.core.errors import CompileError, FarmError, ParityError
from cpuwheels.farm.done import NOT_RUN, Done
from cpuwheels.farm.job import second_opinion
from cpuwheels.farm.perform import perform
from cpuwheels.farm.site import Site
from farms import begun, jobs_for, paths_in, site_in


def echoing(folder: Path, **more: object) -> Site:
    """Return a place whose program prints its arguments and fails."""
    program = folder / "program"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 27\n')
    program.chmod(0o755)
    return Site("one", paths_in(folder), program=(str(program),), **more)  # type: ignore[arg-type]


def test_a_build_gets_the_options_of_the_job_and_of_the_place(tmp_path: Path) -> None:
    (job,) = jobs_for("a", options=("--locked",))
    site = echoing(tmp_path, memory="3G", jobs="2", repo=tmp_path / "clone", store=("--store", "s3://b"))
    done = perform(job, site)
    paths = [str(part) for part in site.paths.as_arguments()]
    build = ["build", "x86", "--source", "a", "--no-summary", "--locked"]
    place = ["--memory", "3G", "--jobs", "2", "--repo", str(tmp_path / "clone"), "--store", "s3://b"]
    assert done.output.split("\n") == [*paths, *build, *place]
    assert (done.code, done.by) == (CompileError.exit_code, "one")
    elsewhere = dataclasses.replace(site, work=tmp_path / "work")
    assert "--sandbox-required" in perform(job, elsewhere).output.split("\n")


def test_a_test_gets_the_wheel_and_no_option_of_builds(tmp_path: Path) -> None:
    _, job = jobs_for("a", level="smoke", options=("--locked",))
    given = Done("k", folder="x86/1", wheel="a.whl")
    words = perform(job, echoing(tmp_path, memory="3G"), [given]).output.split("\n")
    assert words[-6:] == ["parity", "x86", "--wheel", str(tmp_path / "dist/x86/1/a.whl"), "--level", "smoke"]


def test_what_is_done_alone_uses_stores_of_its_own_and_no_shared_one(tmp_path: Path) -> None:
    (job,) = jobs_for("a")
    site = echoing(tmp_path, work=tmp_path / "work", store=("--store", "s3://b"))
    words = perform(second_opinion(job), site).output.split("\n")
    assert words[words.index("--cache") + 1] == str(tmp_path / "cache-alone")
    assert "--store" not in words
    assert "--store" in perform(job, site).output


def test_no_credential_reaches_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("HARMLESS", "shown")
    monkeypatch.setenv("CPUWHEELS_FARM", "tls://127.0.0.1:1")
    monkeypatch.setenv("CPUWHEELS_FARM_KEYS", "/keys")
    (job,) = jobs_for("a")
    site = echoing(tmp_path)
    Path(site.program[0]).write_text("#!/bin/sh\nenv | grep -e HARMLESS -e AWS_ -e FARM\nexit 27\n")
    output = perform(job, site).output
    assert "shown" in output
    assert "secret" not in output


def test_a_job_after_one_that_failed_is_not_begun(tmp_path: Path) -> None:
    _, job = jobs_for("a", level="smoke")
    done = perform(job, site_in(tmp_path), [Done("k", code=27)])
    assert (done.code, done.output) == (NOT_RUN, "a job before it failed")
    assert perform(job, site_in(tmp_path), [done]).output == "a job before it failed"
    assert begun(tmp_path / "events", "parity") == []


def test_a_wheel_that_fails_its_test_goes_home_with_the_report(tmp_path: Path) -> None:
    wheel, parity = jobs_for("a", level="smoke")
    site = site_in(tmp_path / "one", carries=True)
    built = perform(wheel, site)
    (tmp_path / "one" / "events" / "fail-parity-a").write_text(f"{ParityError.exit_code}")
    failed = perform(parity, site, [built])
    assert (failed.code, failed.content) == (ParityError.exit_code, b""), "there is no report"
    again = perform(parity, dataclasses.replace(site, program=(*site.program, "--reports")), [built])
    assert again.code == ParityError.exit_code
    assert "parity.json" in again.files
    assert not list((tmp_path / "one" / "work").iterdir()), "nothing is left of a job that is carried home"


@pytest.mark.parametrize("audit", ["", "b" * 24])
def test_kernels_are_named_with_their_audit_if_it_is_kept(tmp_path: Path, audit: str) -> None:
    job, *_ = (one for one in jobs_for("a", "b", kernels="same") if one.kind == "kernels")
    site = echoing(tmp_path)
    Path(site.program[0]).write_text(f"#!/bin/sh\necho '[x86] kernels done in 3 s'\necho {'a' * 24}\necho {audit}\n")
    done = perform(job, site)
    assert (done.code, done.kernels, done.audit) == (0, "a" * 24, audit)


def test_a_build_that_names_no_wheel(tmp_path: Path) -> None:
    (job,) = jobs_for("a")
    site = echoing(tmp_path)
    Path(site.program[0]).write_text("#!/bin/sh\necho none.whl\n")
    done = perform(job, site)
    assert done.code == FarmError.exit_code
    assert "the build names no wheel" in done.output


def test_a_command_that_a_signal_ended(tmp_path: Path) -> None:
    (job,) = jobs_for("a")
    site = echoing(tmp_path)
    Path(site.program[0]).write_text("#!/bin/sh\nkill -9 $$\n")
    assert perform(job, site).code == FarmError.exit_code
