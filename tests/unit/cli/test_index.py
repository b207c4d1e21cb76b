"""Commands of the index: where it is, what a nightly job leaves for people and machines, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commit_wheels import wheel
from cpuwheels.attestation.sign import Signing
from cpuwheels.cli import main
from cpuwheels.config.context import BuildContext
from cpuwheels.config.options import NightlyOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.errors import (
    BuildEnvironmentError,
    MatrixError,
    NightlyError,
    PostponedError,
    PublishError,
    UsageError,
)
from cpuwheels.index.bucket import Folder
from cpuwheels.index.nightly.summary import Outcome, SecondBuild, State, Summary
from cpuwheels.index.rebuilders.collect import listed_wheels
from rebuilder_sites import MADE_UP, Rebuilder, rebuilders_file, serving
from small_wheels import write_wheel

A, B = "a" * 40, "b" * 40


def run(base: Path, root: Path, *words: str) -> object:
    with pytest.raises(SystemExit) as raised:
        main.main(["--root", str(root), "--dist", str(base / "dist"), *words])
    return raised.value.code


@pytest.mark.parametrize("nightly", [True, False])
def test_a_wheel_is_published_into_the_index_below_the_output(
    tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str], *, nightly: bool
) -> None:
    path = wheel(tmp_path)
    words = ["publish", str(path), "--no-locked", *(["--nightly"] if nightly else [])]
    assert run(tmp_path, project_root, *words) == 0
    index = tmp_path / "dist" / "index"
    assert (index / "latest" / "x86.json").is_file() == nightly
    told = capsys.readouterr().out
    assert told.startswith(f"{path.name}: published in {index} (")
    assert ", parity not run); in " in told
    assert run(tmp_path, project_root, *words) == 0
    assert f"{path.name}: was there already in {index}" in capsys.readouterr().out


def test_what_a_wheel_does_not_say_is_said_for_it(tmp_path: Path, project_root: Path, capsys) -> None:
    path = wheel(tmp_path, note_target="x86")
    words = ["publish", str(path), "--no-locked", "--index", str(tmp_path / "other")]
    assert run(tmp_path, project_root, *words, "--target", "arm") == PublishError.exit_code
    assert run(tmp_path, project_root, *words, "--commit", "f" * 40) == PublishError.exit_code
    assert run(tmp_path, project_root, *words, "--target", "x86", "--commit", f"{1:040x}") == 0
    assert (tmp_path / "other" / "index.json").is_file()
    assert capsys.readouterr().out


@pytest.mark.parametrize("written", [True, False])
def test_a_wheel_is_locked_when_it_is_there(
    tmp_path: Path,
    project_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    written: bool,
) -> None:
    asked: list[tuple[str, Path]] = []

    def write(context: BuildContext, path: Path) -> Path | None:
        asked.append((context.target.id, path))
        if written:
            return path.with_name("pylock.toml")
        context.reporter.announce("the wheel has no pylock.toml next to it: no index answers")
        return None

    monkeypatch.setattr("cpuwheels.pipeline.lock_wheel.write_pylock", write)
    path = write_wheel(
        tmp_path,
        "vllm",
        "0.32.0+cpu",
        {"vllm/_C.abi3.so": ""},
        "torch==2.13.0+cpu",
        tag="cp38-abi3-manylinux_2_28_x86_64",
    )
    words = ["--cache", str(tmp_path / "cache"), "pylock", "x86", str(path)]
    assert run(tmp_path, project_root, *words) == (0 if written else BuildEnvironmentError.exit_code)
    assert asked == [("x86", path)]
    told = capsys.readouterr()
    assert told.out == (f"{path.with_name('pylock.toml')}\n" if written else "")
    assert ("no index answers" in told.err) != written


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
        self, paths: Paths, _: object, bucket: Any, options: NightlyOptions, __: object, signing: Signing | None
    ) -> Summary:
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


@pytest.fixture
def index(tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An index with a wheel."""
    assert run(tmp_path, project_root, "publish", str(wheel(tmp_path)), "--nightly", "--no-locked") == 0
    assert capsys.readouterr().out
    return tmp_path / "dist" / "index"


def test_faults_are_named_and_repaired_only_if_that_is_asked_for(
    index: Path, tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, project_root, "check-index") == 0
    assert capsys.readouterr().out == f"{index}: nothing is wrong\n"
    page = index / "nightly" / "cpu" / "vllm" / "index.html"
    page.write_text("")
    for _ in range(2):
        assert run(tmp_path, project_root, "check-index") == PublishError.exit_code
        assert "the index has 1 fault\n" in capsys.readouterr().err
    assert run(tmp_path, project_root, "check-index", "--repair") == 0
    assert page.read_text()
    assert run(tmp_path, project_root, "check-index", "--index", str(index)) == 0


def test_an_index_is_served_where_it_is_asked_for(
    tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Path, int]] = []

    def serve(folder: Path, port: int, ready: Any) -> None:
        asked.append((folder, port))
        ready("http://127.0.0.1:1/")

    monkeypatch.setattr("cpuwheels.index.serve.serve", serve)
    assert run(tmp_path, project_root, "serve-index") == 0
    assert run(tmp_path, project_root, "serve-index", "--index", str(tmp_path / "a" / ".." / "b"), "--port", "0") == 0
    assert asked == [(tmp_path / "dist" / "index", 8000), (tmp_path / "b", 0)]
    assert capsys.readouterr().out == "http://127.0.0.1:1/\n" * 2


def test_rebuilders_are_asked_checked_and_required(
    tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, project_root, "publish", str(wheel(tmp_path)), "--no-locked")
    (published,) = listed_wheels(Folder(tmp_path / "dist" / "index")).values()
    one, two, liar = (Rebuilder(name, tmp_path / name) for name in ("one", "two", "liar"))
    for each in (one, two, liar):
        each.state(published, MADE_UP if each is liar else "")
    with serving(one.root) as one.url, serving(two.root) as two.url, serving(liar.root) as liar.url:
        file = str(rebuilders_file(tmp_path / "r.yaml", one, two, liar))
        assert run(tmp_path, project_root, "collect-rebuilds", "--rebuilders", file) == 0
    words = f"2 of 3 rebuilders agree; liar differs (sha256 {MADE_UP[:16]}…)"
    out = capsys.readouterr().out
    assert f"{published.filename}: {words}" in out
    assert "the pages of 1 wheel changed" in out
    # The sites are gone meanwhile.
    check = ["check-index", "--rebuilders", file]
    assert run(tmp_path, project_root, *check) == 0
    out = capsys.readouterr().out
    assert f"{published.filename}: {words}" in out
    assert "nothing is wrong" in out
    assert run(tmp_path, project_root, *check, "--require-rebuilders", "2") == 0
    assert run(tmp_path, project_root, *check, "--require-rebuilders", "3") == PublishError.exit_code
    err = capsys.readouterr().err
    assert f"{words}; 3 have to agree" in err
    assert "ask those who differ" in err
    assert run(tmp_path, project_root, "check-index") == 0
    gone = ["check-index", "--rebuilders", str(tmp_path / "gone.yaml")]
    assert run(tmp_path, project_root, *gone) == MatrixError.exit_code
