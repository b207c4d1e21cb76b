"""The nightly job on the command line: its options, what it leaves for people and machines, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.attestation.sign import Signing
from cpuwheels.cli import main
from cpuwheels.config.options import NightlyOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.errors import NightlyError, PostponedError, UsageError
from cpuwheels.index.nightly.summary import Outcome, SecondBuild, State, Summary

A, B = "a" * 40, "b" * 40


def run(base: Path, root: Path, *words: str) -> object:
    with pytest.raises(SystemExit) as raised:
        main.main(["--root", str(root), "--dist", str(base / "dist"), *words])
    return raised.value.code


class Nights:
    """Nightly jobs that end as they are told to."""

    def __init__(self, base: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base, self.root = base, root
        self.states: tuple[State, ...] = ("published",)
        self.asked: list[tuple[Any, ...]] = []
        self.signing: list[Signing | None] = []
        monkeypatch.setattr("cpuwheels.index.nightly.job.run_nightly", self._job)
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

    def run(self, *words: str) -> object:
        return run(self.base, self.root, "nightly", *words)

    def _job(
        self,
        paths: Paths,
        _: object,
        bucket: Any,
        options: NightlyOptions,
        __: object,
        signing: Signing | None,
        farm: object,
    ) -> Summary:
        assert farm is None
        self.asked.append((paths.dist, bucket.name, options))
        self.signing.append(signing)
        outcomes = tuple(
            Outcome(source=A, target="x86", state=state, reason="" if state == "published" else f"it was {state}")
            for state in self.states
        )
        return Summary(began="2026-11-22T10:00:00Z", seconds=1.0, index=bucket.name, outcomes=outcomes)


@pytest.fixture
def nights(tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    return Nights(tmp_path, project_root, monkeypatch)


def test_a_second_build_that_differs_is_noted(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    came = SecondBuild(source="a" * 40, target="x86", state="differs", text="in 3 places")
    job = nights._job

    def run(*arguments: Any) -> Summary:
        return job(*arguments).model_copy(update={"second_build": came})

    monkeypatch.setattr("cpuwheels.index.nightly.job.run_nightly", run)
    assert nights.run() == 0
    assert "the second build of aaaaaaaaa x86 differs: in 3 places" in capsys.readouterr().err


def test_a_job_leaves_its_summary(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    assert nights.run() == 0
    dist = nights.base / "dist"
    assert nights.asked == [(dist, str(dist / "index"), NightlyOptions())]
    assert json.loads((dist / "nightly" / "summary.json").read_text())["outcomes"][0]["state"] == "published"
    assert "1 published" in (dist / "nightly" / "summary.md").read_text()
    captured = capsys.readouterr()
    assert "published" in captured.out
    assert f"summary: {dist / 'nightly' / 'summary.json'}" in captured.err


def test_options_reach_the_job(nights: Nights) -> None:
    words = "--target x86 --target arm --since v1 --release 2 --latest-release --branch side --repo here --level deep"
    index = str(nights.base / "other")
    assert (
        nights.run(
            *words.split(), "--hours", "1.5", "--memory", "8G", "--no-locked", "--allow-fallbacks", "--index", index
        )
        == 0
    )
    expected = NightlyOptions(
        targets=("x86", "arm"),
        since="v1",
        release="2",
        latest_release=True,
        branch="side",
        repo=Path("here"),
        level="deep",
        hours=1.5,
        memory="8G",
        locked=False,
        allow_fallbacks=True,
    )
    assert [(name, options) for _, name, options in nights.asked] == [(index, expected)]


@pytest.mark.parametrize("part", ["build", "publish"])
def test_a_part_of_a_job(nights: Nights, part: str) -> None:
    given = ["--wheels", "here"] if part == "publish" else []
    assert nights.run(f"--{part}", "--commit", A, *given) == 0
    ((_, _, options),) = nights.asked
    assert (options.part, options.commit, options.wheels) == (part, A, Path("here") if given else None)


def test_a_publisher_is_told_how_to_sign(nights: Nights) -> None:
    assert nights.run("--publish") == 0
    assert nights.run("--publish", "--keyless", "--key", "awskms:a", "--public-key", "a.pub") == 0
    assert nights.signing == [None, Signing(key="awskms:a", public_key=Path("a.pub"), keyless=True)]


@pytest.mark.parametrize("part", [[], ["--build"]])
def test_what_builds_has_no_bucket(nights: Nights, capsys: pytest.CaptureFixture[str], part: list[str]) -> None:
    assert nights.run(*part, "--index", "s3://wheels/x") == UsageError.exit_code
    assert nights.asked == []
    assert "then nightly --publish" in capsys.readouterr().err


def test_a_build_reads_an_index_at_its_address(nights: Nights) -> None:
    assert nights.run("--build", "--index", "https://wheels.example.org") == 0
    assert nights.asked[0][1] == "https://wheels.example.org"
    assert nights.run("--index", "https://wheels.example.org") == UsageError.exit_code


def test_githubs_page_keeps_what_other_steps_wrote(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    step = nights.base / "step.md"
    step.write_text("## Another step\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    assert nights.run() == 0
    assert step.read_text().startswith("## Another step\n## Nightly wheels: 1 published")


@pytest.mark.parametrize(
    ("states", "code", "words"),
    [
        (("published", "there"), 0, ""),
        (("published", "failed", "wrong"), NightlyError.exit_code, "2 wheels were not published"),
        (("published", "postponed", "failed"), NightlyError.exit_code, "1 wheels were not published"),
        (("published", "postponed"), PostponedError.exit_code, "1 wheels are left for the next run"),
    ],
)
def test_the_worst_wheel_decides_how_a_job_ends(
    nights: Nights, capsys: pytest.CaptureFixture[str], states: tuple[State, ...], code: int, words: str
) -> None:
    nights.states = states
    assert nights.run() == code
    told = capsys.readouterr().err
    assert words in told
    assert ("error: " in told) == (code != 0)
    if code:
        assert told.count("aaaaaaaaa x86: it was") == told.count("aaaaaaaaa x86:") == len(states) - 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--farm", "tls://host:1"], "what sends jobs to a farm publishes nothing"),
        (["--publish", "--farm", "tls://host:1"], "what sends jobs to a farm publishes nothing"),
        (["--build", "--farm", "tls://host:1", "--memory", "8G"], "the workers of a farm have shares of their own"),
        (["--build", "--farm", "host:1"], "'host:1' is no address of a farm"),
        (["--build", "--second-opinion"], "one machine has only its own opinion"),
        (["--build", "--priority", "3"], "one machine has one order of jobs"),
    ],
)
def test_options_about_a_farm_are_refused_where_they_mean_nothing(
    nights: Nights, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert nights.run(*words) == UsageError.exit_code
    assert said in capsys.readouterr().err
    assert nights.asked == []
