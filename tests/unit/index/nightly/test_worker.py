"""One wheel of a nightly job: when it is tested, timed and published, and what is kept of one that is not."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from attested_wheels import attested_wheel
from commit_wheels import wheel
from cpuwheels.attestation.envelope import verify_envelope
from cpuwheels.attestation.keys import make_key, public_key
from cpuwheels.attestation.sign import Signing, sign_wheel
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import BuildOptions, ParityOptions
from cpuwheels.config.paths import Paths
from cpuwheels.config.serving_options import ServeOptions
from cpuwheels.core.console import Reporter
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import (
    CompileError,
    CpuwheelsError,
    DiskFullError,
    NightlyError,
    ParityError,
    PostponedError,
    ProvenanceError,
    PublishError,
    ServeError,
    UsageError,
)
from cpuwheels.fetch.requests import current
from cpuwheels.index.bucket import Folder
from cpuwheels.index.check import check_index
from cpuwheels.index.nightly import worker as module
from cpuwheels.index.nightly.builder import WheelBuilder
from cpuwheels.index.nightly.plan import Job
from cpuwheels.index.nightly.publisher import WheelPublisher
from cpuwheels.index.nightly.worker import WheelMaker, commit_of
from cpuwheels.pipeline.variation.axes import AXES
from cpuwheels.pipeline.variation.second_build import SecondBuildError
from cpuwheels.verification.benchmark.compare import CaseTimes, OperatorSpeed
from cpuwheels.verification.benchmark.ratio import Ratio
from cpuwheels.verification.benchmark.result import SpeedResult
from cpuwheels.verification.benchmark.run import Side, SpeedRequest
from cpuwheels.verification.verified import Verified
from cpuwheels.wheel.kernel_wheel import KernelWheel
from fake_builds import PLACE, Builds
from sample_results import answered, case, library, parity, serving, verified

MADE = "2026-11-22T10:00:00Z"


def job(number: int = 1, target: str = "x86") -> Job:
    return Job(f"{number:040x}", target, MADE)


class Night:
    """Makes wheels whose tests say what they are told to."""

    def __init__(self, base: Path, matrix: Matrix, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
        self.index, self.paths, self.reporter = base / "index", Paths(base, base / "cache", base / "nightly"), reporter
        self.matrix, self.builds = matrix, Builds()
        self.kernels: dict[int, str] = {}
        self.problem = ""
        self.speed_error: UsageError | None = None
        self.checked: list[ParityOptions] = []
        self.answer_right = True
        self.served: list[ServeOptions] = []
        self.timed: list[tuple[bytes, int]] = []
        self.builds.wheel = lambda paths, options: wheel(
            paths.dist, int(options.source or "", 16), kernels=self.kernels.get(int(options.source or "", 16), "k")
        )
        monkeypatch.setattr(PLACE, self.builds)
        monkeypatch.setattr("cpuwheels.pipeline.test_wheel.check_wheel", self._check)
        monkeypatch.setattr("cpuwheels.pipeline.test_wheel.compare_speed", self._time)
        monkeypatch.setattr("cpuwheels.pipeline.serve_wheel.serve_wheel", self._serve)
        monkeypatch.setattr("cpuwheels.pipeline.verify.verify_wheel", self._verify)
        monkeypatch.setattr("cpuwheels.pipeline.lock_wheel.lock_wheel", self._lock)
        self.locks: list[tuple[str, bool]] = []
        self.resolvable = True
        self.verified: list[tuple[Any, ...]] = []
        self.verify_error: Exception | None = None
        self.differing: tuple[str, ...] = ()

    @property
    def maker(self) -> WheelMaker:
        options = BuildOptions(memory="8G", source="another")
        return WheelMaker(self.paths, self.matrix, Folder(self.index), options, "deep", self.reporter)

    def maker_of(self, turn: str) -> WheelMaker:
        options = BuildOptions(memory="8G", source="another")
        return WheelMaker(self.paths, self.matrix, Folder(self.index), options, "deep", self.reporter, turn=turn)

    def _verify(
        self, paths: Paths, _matrix: object, name: str, options: BuildOptions, path: Path, axes: Any, _: object
    ) -> Verified:
        self.verified.append((paths.dist, name, options, path.read_bytes(), [axis.name for axis in axes]))
        if self.verify_error:
            raise self.verify_error
        found = verified(*self.differing, wheel=path.name, sha256=file_digest(path))
        path.with_name("verify.json").write_text(found.as_text())
        return found

    def latest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.index / "latest" / "x86.json").read_text())
        return found

    def _check(self, _paths: object, _matrix: object, _name: str, path: Path, options: ParityOptions, *_: object):
        self.checked.append(options)
        found = parity(library("_C", case("scale[1]", problem=self.problem)))
        return found.model_copy(update={"wheel": path.name, "sha256": file_digest(path)})

    def _serve(self, _paths: object, _matrix: object, _name: str, path: Path, options: ServeOptions, *_: object):
        self.served.append(options)
        return serving(answered(right=self.answer_right), wheel=path.name, sha256=file_digest(path)), path.parent

    def _lock(self, _paths: object, _matrix: object, name: str, path: Path, _: object) -> Path | None:
        self.locks.append((name, current() is not None))
        if not self.resolvable:
            return None
        lock = path.with_name("pylock.toml")
        own = {"name": path.name, "path": path.name, "hashes": {"sha256": file_digest(path)}}
        package = {"name": "vllm", "version": path.name.split("-")[1], "wheels": [own]}
        lock.write_text(tomli_w.dumps({"lock-version": "1.0", "created-by": "a test", "packages": [package]}))
        return lock

    def _time(self, paths: Paths, _matrix: object, _name: str, path: Path, options: Any, *_: object) -> SpeedResult:
        assert options.against.is_relative_to(paths.dist)
        self.timed.append((options.against.read_bytes(), options.rounds))
        if self.speed_error:
            raise self.speed_error
        sides = [
            Side(KernelWheel(one, file_digest(one), "1", "2", {}), Path(), Path()) for one in (path, options.against)
        ]
        times = CaseTimes("scale[1]", "scale", 0, [1.0], [2.0])
        speeds = (OperatorSpeed("scale", Ratio(2.0, 1.9, 2.1), (times,)),)
        return SpeedResult(SpeedRequest("_C", (), options.rounds, 2, 1), *sides, speeds, (), "a CPU")


@pytest.fixture
def night(tmp_path: Path, project_root: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> Night:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    return Night(tmp_path, load_matrix(project_root), reporter, monkeypatch)


def test_a_wheel_is_built_tested_and_published_and_nothing_else_stays(night: Night) -> None:
    made = night.maker.make(job())
    (asked,) = night.builds.asked
    assert asked.options == BuildOptions(memory="8G", source=f"{1:040x}")
    assert asked.paths.dist == night.paths.dist / f"x86-{0:012x}"
    (options,) = night.checked
    assert (options.level, options.emulation) == ("deep", True)
    latest = night.latest()
    assert night.served == [ServeOptions(models=night.matrix.nightly.serve)]
    assert (latest["filename"], latest["commit"]) == (made.wheel, f"{1:040x}")
    assert (latest["parity"], latest["served"]) == ("passed in part", "passed")
    assert {"parity.json", "serve.json"} < set(latest["beside"])
    assert list(night.paths.dist.iterdir()) == []


@pytest.mark.parametrize("resolvable", [True, False])
def test_a_wheel_is_locked_after_its_build(night: Night, *, resolvable: bool) -> None:
    night.resolvable = resolvable
    night.maker.make(job())
    assert night.locks == [("x86", False)], "outside of what the build may ask for"
    assert (night.latest()["lock"] is not None) == resolvable
    assert len(list(night.index.glob("files/*/pylock.toml"))) == resolvable
    assert check_index(Folder(night.index)) == []


def test_a_lock_that_the_build_wrote_stays(night: Night) -> None:
    built = night.builds.wheel

    def with_lock(paths: Paths, options: BuildOptions) -> Path:
        path = built(paths, options)
        night._lock(None, None, "build", path, None)
        return path

    night.builds.wheel = with_lock
    night.maker.make(job())
    assert [name for name, _ in night.locks] == ["build"]
    assert night.latest()["lock"] is not None


def test_a_wheel_with_wrong_results_is_not_published(night: Night) -> None:
    night.problem = "out is wrong"
    with pytest.raises(ParityError, match="scale"):
        night.maker.make(job())
    assert not (night.index / "latest").exists()
    assert list(night.paths.dist.rglob("parity.html"))


def test_a_wheel_that_does_not_serve_is_not_published(night: Night) -> None:
    night.answer_right = False
    with pytest.raises(ServeError, match="opt bfloat16"):
        night.maker.make(job())
    assert not (night.index / "latest").exists()
    assert list(night.paths.dist.rglob("serve.json"))


def test_without_models_nothing_is_served(night: Night) -> None:
    nightly = night.matrix.nightly.model_copy(update={"serve": ()})
    night.matrix = night.matrix.model_copy(update={"nightly": nightly})
    night.maker.make(job())
    assert (night.served, night.latest()["served"]) == ([], "not run")


@pytest.mark.parametrize(("root", "tested"), [(None, False), ("root-arm64", True)])
def test_a_wheel_for_another_machine_is_tested_if_that_can_be_emulated(
    night: Night, monkeypatch: pytest.MonkeyPatch, root: str | None, *, tested: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    targets = [target.model_copy(update={"root": root}) for target in night.matrix.targets]
    night.matrix = night.matrix.model_copy(update={"targets": tuple(targets)})
    night.maker.make(job())
    assert len(night.checked) == tested
    assert night.served == []
    assert night.latest()["parity"] == ("passed in part" if tested else "not run")
    night.kernels[2] = "others"
    night.maker.make(job(2))
    assert night.timed == []


def test_other_kernels_are_timed_against_those_of_the_wheel_before(night: Night) -> None:
    night.maker.make(job(1))
    assert night.timed == []
    (before,) = night.index.glob("files/*/*.whl")
    night.kernels[2] = "others"
    night.maker.make(job(2))
    assert night.timed == [(before.read_bytes(), night.matrix.nightly.speed_rounds)]
    assert night.latest()["speed"] == {"against": before.name, "ratio": 2.0, "slower": []}


def test_the_same_kernels_are_not_timed(night: Night) -> None:
    night.maker.make(job(1))
    night.maker.make(job(2))
    assert night.timed == []


def test_without_rounds_nothing_is_timed(night: Night) -> None:
    nightly = night.matrix.nightly.model_copy(update={"speed_rounds": 0})
    night.matrix = night.matrix.model_copy(update={"nightly": nightly})
    night.maker.make(job(1))
    night.kernels[2] = "others"
    night.maker.make(job(2))
    assert night.timed == []
    assert night.latest()["commit"] == f"{2:040x}"


@pytest.mark.parametrize("fault", ["nothing to compare", "gone"])
def test_a_wheel_that_cannot_be_timed_is_published_without(night: Night, story: io.StringIO, fault: str) -> None:
    night.maker.make(job(1))
    (before,) = night.index.glob("files/*/*.whl")
    night.speed_error = UsageError("there is nothing to compare")
    if fault == "gone":
        before.unlink()
    night.kernels[2] = "others"
    night.maker.make(job(2))
    assert night.latest()["speed"] is None
    told = {
        "nothing to compare": f"no speed against {before.name}: there is nothing to compare",
        "gone": f"{before.name} is not in the index any more: no speed against it",
    }
    assert told[fault] in story.getvalue()


class TestSecondBuilds:
    """The first wheel of the target whose turn it is; the wheel stays published whatever comes of it."""

    def test_the_wheel_is_built_again_and_the_index_tells_of_it(self, night: Night) -> None:
        maker = night.maker_of("x86")
        made = maker.make(job())
        assert night.latest()["reproduced"] is None
        (built,) = night.paths.dist.rglob("*.whl")
        content = built.read_bytes()
        came = maker.second_build()
        assert came is not None
        assert (came.source, came.target, came.state) == (f"{1:040x}", "x86", "reproduced")
        assert came.text.startswith("two builds, the same bytes")
        options = BuildOptions(memory="8G", source=f"{1:040x}")
        assert night.verified == [
            (night.paths.dist / f"x86-{0:012x}", "x86", options, content, [axis.name for axis in AXES])
        ]
        latest = night.latest()
        assert (latest["filename"], latest["reproduced"]["state"]) == (made.wheel, "reproduced")
        assert (latest["parity"], latest["served"]) == ("passed in part", "passed"), "they stay"
        assert "verify.json" in latest["beside"]
        assert check_index(Folder(night.index)) == []
        assert list(night.paths.dist.iterdir()) == []

    def test_only_the_first_wheel_of_the_target(self, night: Night) -> None:
        maker = night.maker_of("x86")
        commits = (2 << 156, 1 << 156)  # folders are named after their first digits
        for number in commits:
            maker.make(job(number))
        came = maker.second_build()
        assert came is not None
        assert came.source == f"{commits[0]:040x}"
        assert len(night.verified) == 1
        assert list(night.paths.dist.iterdir()) == []

    def test_no_wheel_of_another_target(self, night: Night) -> None:
        maker = night.maker_of("arm")
        maker.make(job())
        assert list(night.paths.dist.iterdir()) == []
        assert maker.second_build() is None
        assert night.verified == []

    def test_one_that_differs_is_published_as_such(self, night: Night, story: io.StringIO) -> None:
        maker = night.maker_of("x86")
        maker.make(job())
        night.differing = ("vllm/_C.abi3.so",)
        came = maker.second_build()
        assert came is not None
        assert came.state == "differs"
        assert night.latest()["reproduced"]["state"] == "differs"
        assert "x86: differs: two builds that differ in umask, hostname" in story.getvalue()

    @pytest.mark.parametrize(
        ("error", "state", "text"),
        [
            (PostponedError("the time is up"), "postponed", "the time is up"),
            (SecondBuildError(27), "failed", "the second build ended with status 27"),
            (DiskFullError("the disk is full"), "failed", "the disk is full"),
        ],
    )
    def test_none_that_came_about_changes_nothing(self, night: Night, error: Exception, state: str, text: str) -> None:
        maker = night.maker_of("x86")
        maker.make(job())
        before = night.latest()
        night.verify_error = error
        came = maker.second_build()
        assert came is not None
        assert (came.state, came.text) == (state, text)
        assert night.latest() == before
        assert list(night.paths.dist.iterdir()) == []


Missing = Callable[[], dict[str, Any]]


@pytest.fixture
def missing(night: Night) -> Missing:
    """Returns the index's row of the wheel that was made last."""

    def row() -> dict[str, Any]:
        (found,) = json.loads((night.index / "commits.json").read_text())["newest"]
        return dict(found)

    return row


@pytest.mark.parametrize(
    ("error", "state"), [(CompileError("ops.cpp.o could not be made"), "failed"), (ParityError("scale"), "wrong")]
)
def test_what_was_not_published_is_kept_and_the_index_says_why(
    night: Night, missing: Missing, error: CompileError | ParityError, state: str
) -> None:
    own = night.paths.dist / f"x86-{0:012x}"
    (own / "logs").mkdir(parents=True)
    (own / "logs" / "compile.log").write_text("error: no")
    kept = night.maker.keep(job(), error)
    assert kept == str(night.paths.dist / "kept" / own.name)
    assert not own.exists()
    assert (Path(kept) / "logs" / "compile.log").read_text() == "error: no"
    assert (Path(kept) / "why.txt").read_text() == f"{error}\n"
    row = missing()
    assert (row["commit"], row["version"], row["made"]) == (f"{1:040x}", "", MADE)
    assert (row["missing"]["x86"]["state"], row["missing"]["x86"]["reason"]) == (state, error.what)


def test_the_next_nights_files_replace_those_of_the_night_before(night: Night) -> None:
    own = night.paths.dist / f"x86-{0:012x}"
    for name in ("one", "two"):
        own.mkdir(parents=True)
        (own / name).write_text("")
        kept = Path(night.maker.keep(job(), CompileError(name)))
    assert sorted(path.name for path in kept.iterdir()) == ["two", "why.txt"]


def test_pages_have_the_commits_subject(night: Night, missing: Missing) -> None:
    maker = WheelMaker(
        night.paths,
        night.matrix,
        Folder(night.index),
        BuildOptions(memory="8G", source="another"),
        "deep",
        night.reporter,
        subject_of=lambda source: f"[CPU] {source[-1]}\nand more",
    )
    maker.keep(job(), CompileError("no"))
    assert missing()["subject"] == f"[CPU] {job().source[-1]}"
    maker.make(job(1))
    assert "</a> [CPU] 1</th>" in (night.index / "index.html").read_text()


def test_a_wheel_that_was_not_even_begun_has_its_reason(night: Night) -> None:
    kept = night.maker.keep(job(), CompileError("no"))
    assert [path.name for path in Path(kept).iterdir()] == ["why.txt"]


def test_a_release_is_missing_by_its_version(night: Night, missing: Missing) -> None:
    night.maker.keep(Job("0.32.0", "x86", MADE), CompileError("no"))
    assert (missing()["commit"], missing()["version"]) == (None, "0.32.0")


def test_an_index_that_cannot_say_it_stops_nothing(
    night: Night, monkeypatch: pytest.MonkeyPatch, story: io.StringIO
) -> None:
    def fail(*_: object) -> None:
        raise PublishError("another publisher is at work")

    monkeypatch.setattr(module, "note_missing", fail)
    kept = night.maker.keep(job(), CompileError("no"))
    assert (Path(kept) / "why.txt").is_file()
    assert "the index does not say why there is no wheel: another publisher is at work" in story.getvalue()


class TestInTwoProcesses:
    """What builds has no index to write; what publishes runs nothing."""

    @pytest.fixture
    def ready(self, night: Night) -> Path:
        return night.paths.dist / "ready" / f"x86-{1:040x}"

    def builder(self, night: Night) -> WheelBuilder:
        return WheelBuilder(night.paths, night.matrix, Folder(night.index), BuildOptions(), "deep", night.reporter)

    def publisher(
        self, night: Night, version: str = "0.32.1.dev1+g000000001", signing: Signing | None = None
    ) -> WheelPublisher:
        arguments = (night.paths, night.matrix, Folder(night.index), BuildOptions(), "deep", night.reporter)
        wheels = night.paths.dist / "ready"
        return WheelPublisher(*arguments, wheels=wheels, version_of=lambda _: version, signing=signing)

    def test_the_publisher_signs_and_what_the_build_signed_is_not_published(
        self, night: Night, ready: Path, tmp_path: Path
    ) -> None:
        ready.parent.mkdir(parents=True)
        made = attested_wheel(night.paths.dist / "made")
        make_key(tmp_path / "builder")
        sign_wheel(made, Signing(key=str(tmp_path / "builder")), {})
        made.parent.replace(ready)
        make_key(tmp_path / "publisher")
        own = ready / f"{made.name}.intoto.jsonl"
        before = own.read_bytes()
        self.publisher(night, signing=Signing(key=str(tmp_path / "publisher"))).make(job())
        (envelope,) = night.index.glob("files/*/*.intoto.jsonl")
        assert envelope.read_bytes() != before
        trusted = public_key(tmp_path / "publisher.pub")
        assert verify_envelope(envelope.read_bytes(), [trusted], envelope)[1] == trusted.keyid
        assert night.latest()["signed"]["by"] == [f"key {trusted.keyid}"]

    def test_a_statement_that_the_build_changed_is_not_signed(self, night: Night, ready: Path, tmp_path: Path) -> None:
        ready.parent.mkdir(parents=True)
        made = attested_wheel(night.paths.dist / "made")
        statement = made.with_name(f"{made.name}.provenance.json")
        statement.write_text(statement.read_text().replace('"locked": false', '"locked": true'))
        made.parent.replace(ready)
        make_key(tmp_path / "publisher")
        with pytest.raises(ProvenanceError, match=r"does not say what record.json says"):
            self.publisher(night, signing=Signing(key=str(tmp_path / "publisher"))).make(job())
        assert not (night.index / "files").exists()

    def test_a_wheel_is_left_and_then_published(
        self, night: Night, ready: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = self.builder(night).make(job())
        assert (made.state, list(night.index.iterdir())) == ("built", [])
        assert [path.name for path in night.paths.dist.iterdir()] == ["ready"]
        left = {path.name for path in ready.iterdir()}
        assert left >= {made.wheel, "parity.json", "serve.json", "record.json", "pylock.toml"}

        def fail(*_: object) -> None:
            raise AssertionError("a publisher builds and tests nothing")

        for name in ("build.build", "test_wheel.check_wheel", "serve_wheel.serve_wheel", "lock_wheel.lock_wheel"):
            monkeypatch.setattr(f"cpuwheels.pipeline.{name}", fail)
        assert self.publisher(night).make(job()).wheel == made.wheel
        assert (night.latest()["parity"], night.latest()["commit"]) == ("passed in part", f"{1:040x}")
        assert night.latest()["lock"] is not None
        assert not ready.exists()

    def test_what_came_of_a_second_build_is_left_with_the_wheel(self, night: Night, ready: Path) -> None:
        arguments = (night.paths, night.matrix, Folder(night.index), BuildOptions(), "deep", night.reporter)
        builder = WheelBuilder(*arguments, turn="x86")
        builder.make(job())
        came = builder.second_build()
        assert came is not None
        assert came.state == "reproduced"
        assert (ready / "verify.json").is_file()
        assert list(night.index.iterdir()) == []
        assert [path.name for path in night.paths.dist.iterdir()] == ["ready"]
        self.publisher(night).make(job())
        assert night.latest()["reproduced"]["state"] == "reproduced"
        assert check_index(Folder(night.index)) == []

    @pytest.mark.parametrize(
        ("version", "number"),
        [("99.0.0", 1), ("0.32.1.dev1+g000000002", 1), ("0.32.1.dev2+g000000001", 1), ("0.32.1.dev1+g000000001", 2)],
    )
    def test_a_wheel_that_says_it_is_another_is_refused(
        self, night: Night, ready: Path, version: str, number: int
    ) -> None:
        ready.mkdir(parents=True)
        forged = wheel(night.paths.dist / "forged", number)
        for path in forged.parent.iterdir():
            path.replace(ready / path.name)
        with pytest.raises(PublishError, match=r"was asked for|was built from commit"):
            self.publisher(night, version).make(job())
        assert not (night.index / "files").exists()

    @pytest.mark.parametrize("name", ["record.json", "pylock.toml", "parity.json"])
    def test_a_report_that_leads_elsewhere_is_refused(self, night: Night, ready: Path, name: str) -> None:
        ready.mkdir(parents=True)
        forged = wheel(night.paths.dist / "forged", 1)
        forged.replace(ready / forged.name)
        (night.paths.dist / "secret").write_text("{}")
        (ready / name).symlink_to(night.paths.dist / "secret")
        with pytest.raises(PublishError, match="symbolic link"):
            self.publisher(night).make(job())
        assert not (night.index / "files").exists()

    def test_what_is_written_while_it_is_checked_is_not_published(
        self, night: Night, ready: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = self.builder(night).make(job())
        whole = (ready / made.wheel).read_bytes()
        read = module.publish_wheel

        def late(*arguments: Any, **options: Any) -> Any:
            (ready / made.wheel).write_bytes(b"evil")
            return read(*arguments, **options)

        monkeypatch.setattr(module, "publish_wheel", late)
        self.publisher(night).make(job())
        (published,) = night.index.glob("files/*/*.whl")
        assert published.read_bytes() == whole

    def test_a_wheel_for_another_target_is_refused(self, night: Night, ready: Path) -> None:
        ready.mkdir(parents=True)
        forged = wheel(night.paths.dist / "forged", 1, "arm")
        forged.replace(ready / forged.name)
        with pytest.raises(PublishError, match="was built for target arm, not x86"):
            self.publisher(night).make(job())

    @pytest.mark.parametrize(
        ("error", "state"), [(CompileError("ops.cpp.o could not be made"), "failed"), (ParityError("scale"), "wrong")]
    )
    def test_why_there_is_none_reaches_the_index(
        self, night: Night, missing: Missing, error: CompileError | ParityError, state: str
    ) -> None:
        kept = self.builder(night).keep(job(), error)
        assert (Path(kept) / "why.txt").is_file()
        assert list(night.index.iterdir()) == []
        publisher = self.publisher(night)
        with pytest.raises(CpuwheelsError) as raised:
            publisher.make(job())
        publisher.keep(job(), raised.value)
        assert (missing()["missing"]["x86"]["state"], missing()["missing"]["x86"]["reason"]) == (state, error.what)

    def test_a_reason_is_short_and_plain(self, night: Night, missing: Missing) -> None:
        error = CompileError("\x1b[31m\n" + "x" * 10_000 + " https://me:geheim@example.org")
        self.builder(night).keep(job(), error)
        with pytest.raises(CpuwheelsError) as raised:
            self.publisher(night).make(job())
        self.publisher(night).keep(job(), raised.value)
        reason = missing()["missing"]["x86"]["reason"]
        assert len(reason) <= 500
        assert reason.isprintable()

    @pytest.mark.parametrize("names", [[], ["a.txt"], ["a.whl", "b.whl"], ["failure.json"]])
    def test_what_is_neither_a_wheel_nor_a_reason(self, night: Night, ready: Path, names: list[str]) -> None:
        ready.mkdir(parents=True)
        for name in names:
            (ready / name).write_text("{")
        with pytest.raises(PublishError, match="neither a wheel nor the reason"):
            self.publisher(night).make(job())

    def test_a_folder_that_is_a_link_is_none(self, night: Night, ready: Path) -> None:
        ready.parent.mkdir(parents=True)
        ready.symlink_to(wheel(night.paths.dist / "forged", 1).parent)
        with pytest.raises(NightlyError, match="was not built"):
            self.publisher(night).make(job())


@pytest.mark.parametrize(
    ("source", "commit"), [("a" * 40, "a" * 40), ("0.32.0", None), ("a" * 39, None), ("a" * 41, None)]
)
def test_a_release_is_no_commit(source: str, commit: str | None) -> None:
    assert commit_of(Job(source, "x86", MADE)) == commit
