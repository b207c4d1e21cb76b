"""What is wrong with an index is found; a good one has nothing wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from commit_wheels import wheel
from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.core.digests import file_digest
from cpuwheels.core.errors import CpuwheelsError, PublishError
from cpuwheels.index.bucket import Folder
from cpuwheels.index.check import Remedy, check_index
from cpuwheels.index.commit_pages import Missing, Row
from cpuwheels.index.entry import Reproduced, Speed, read_entry
from cpuwheels.index.publish import Publication, note_missing, publish
from cpuwheels.index.publish_wheel import publish_wheel
from cpuwheels.verification.parity.reports import write_reports
from cpuwheels.verification.parity.results import CaseResult, LibraryResult, Parity
from cpuwheels.verification.verified import Verified
from sample_results import answered, serving, verified

COMMIT = "c" * 40


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


@pytest.fixture
def root(tmp_path: Path, matrix: Matrix) -> Path:
    folder = tmp_path / "index"
    for number, target in ((1, "x86"), (1, "arm"), (5, "x86"), (6, "x86")):
        publish_wheel(Folder(folder), wheel(tmp_path / "dist", number, target), matrix, nightly=number != 5)
    return folder


def faults(root: Path) -> str:
    return "\n".join(fault.what for fault in check_index(Folder(root)))


def test_a_good_index(root: Path) -> None:
    assert check_index(Folder(root)) == []
    assert len(list(root.glob("commits/*.json"))) > 1
    newest = json.loads((root / "commits.json").read_text())["newest"]
    assert [sorted(row["wheels"]) for row in newest] == [["x86"], ["x86"], ["arm", "x86"]]


def damage(path: Path, content: bytes | None) -> None:
    path.unlink() if content is None else path.write_bytes(content)


@pytest.mark.parametrize(
    ("pattern", "content", "words"),
    [
        ("files/*/*x86_64.whl", None, "is missing"),
        ("files/*/*x86_64.whl", b"other", "has other bytes than its pages say"),
        ("files/*/*.metadata", b"other", "is not the wheel's METADATA"),
        ("files/*/record.json", None, "record.json is missing"),
        ("nightly/cpu/vllm/index.html", b"<p>", "does not match the wheels there"),
        ("nightly/cpu/index.html", None, "nightly/cpu/index.html is missing"),
        ("nightly/cpu/vllm/metadata.json", None, "metadata.json is missing"),
        ("nightly/cpu/vllm/index.v1.json", b"{", "index.v1.json is damaged"),
        ("commits.json", b"{}", "commits.json does not match"),
        ("commits/*.json", None, "is missing"),
        ("latest/x86.json", b"{}", "latest/x86.json does not match"),
    ],
)
def test_what_is_wrong_is_named(root: Path, pattern: str, content: bytes | None, words: str) -> None:
    path = next(root.glob(pattern))
    damage(path, content)
    said = faults(root)
    assert words in said
    assert path.name in said


REPRODUCED = Reproduced(state="reproduced", moment="2026-11-25T03:00:00Z", varied=("umask",))


@pytest.mark.parametrize(
    ("field", "lie", "words"),
    [
        ("sha256", "0" * 64, ["has other bytes than its pages say"]),
        ("metadata_sha256", "0" * 64, ["has metadata_sha256 '{truth}'; its pages say '{lie}'"]),
        ("size", 7, ["has size {truth}; its pages say 7"]),
        ("requires_python", ">=2", ["has requires_python ''; its pages say '>=2'"]),
        ("version", "0.32.1+cpu", ["has version '{truth}'; its pages say '{lie}'"]),
        ("kernels", "other", ["has kernels 'k'; its pages say 'other'"]),
        ("made", "2020-01-01T00:00:00Z", ["has made '{truth}'; its pages say '{lie}'"]),
        ("commit", "f" * 40, ["was built from commit {truth}, not {lie}"]),
        ("target", "arm", ["was built for target x86, not arm"]),
        ("beside", ("record.json", "gone.html"), ["gone.html is missing"]),
        ("parity", "passed", []),  # the wheel does not say
        ("served", "passed", []),  # likewise
        ("reproduced", REPRODUCED, ["says 'not yet reproduced'; its pages say 'reproduced'"]),
    ],
)
def test_what_all_pages_say_of_a_wheel_is_compared_with_the_wheel(
    tmp_path: Path, field: str, lie: Any, words: list[str]
) -> None:
    """Nothing but the wheel itself tells: all pages have been written for the same entry."""
    bucket, path = Folder(tmp_path / "index"), wheel(tmp_path / "dist")
    entry, metadata = read_entry(path)
    truth = getattr(entry, field)
    said = entry.model_copy(update={field: lie})
    reports = {name: b"{}" for name in said.beside if name != "gone.html"}
    publish(bucket, Publication(said, path, metadata, reports, nightly=True))
    found = [fault.what for fault in check_index(bucket)]
    assert len(found) == len(words)
    assert all(wanted.format(truth=truth, lie=lie) in what for what, wanted in zip(found, words, strict=True)), found


def test_pages_that_say_something_else_of_a_wheel(root: Path) -> None:
    for path in (root / "nightly" / "cpu" / "vllm").iterdir():
        path.write_text(path.read_text().replace('"size": ', '"size": 1'))
    assert "says something else of" in faults(root)


def test_pages_that_name_another_wheel(root: Path) -> None:
    for path in root.rglob("*.json"):
        path.write_text(path.read_text().replace("0.32.1.dev6+g000000006", "0.32.1.dev7+g000000006"))
    (there,) = (path.relative_to(root).as_posix() for path in root.glob("files/*/*dev6*.whl"))
    found = faults(root).splitlines()
    assert f"{there.replace('dev6', 'dev7')} is missing" in found
    assert f"{there} belongs to no wheel that is listed" in found


def test_what_belongs_to_nothing_is_named(root: Path) -> None:
    (root / "files" / "0000").mkdir()
    (root / "files" / "0000" / "left.whl").write_text("")
    assert faults(root) == "files/0000/left.whl belongs to no wheel that is listed"


def test_what_could_not_be_made_is_no_fault(root: Path) -> None:
    why = Missing(state="wrong", reason="2 operators", tried="2026-11-23T05:00:00Z")
    made = json.loads((root / "commits.json").read_text())["newest"][0]["made"]
    for number in (6, 7):
        note_missing(Folder(root), Row(commit=f"{number:040x}", version="", made=made, missing={"arm": why}))
    assert faults(root) == ""
    days = list((root / "commits").iterdir())
    for day in days:
        day.write_text(day.read_text().replace("2 operators", "3 operators"))
    assert "commits.json does not match the wheels there" in faults(root)
    days[0].write_text("{")
    assert f"{days[0].name} does not match the wheels there" in faults(root)


def test_an_interrupted_publication_and_no_index(root: Path, tmp_path: Path) -> None:
    (root / "publishing.json").write_text("{}")
    assert "a publisher was interrupted" in faults(root)
    assert "there is no index" in faults(tmp_path / "nothing")
    (root / "index.json").write_text('{"format": 9, "project": "vllm"}')
    with pytest.raises(PublishError, match="format 9"):
        faults(root)


class TestByHand:
    def test_a_wheel_with_its_reports(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        path.with_name("report.html").write_text("<script>")
        path.with_name("secret.txt").write_text("no report")
        found = publish_wheel(Folder(tmp_path / "index"), path, matrix)
        assert found.new
        assert found.entry.beside == ("record.json",)  # no page can be made from this one, and none is believed
        assert not list((tmp_path / "index").rglob("secret.txt"))

    def parity(
        self,
        path: Path,
        verdict: str,
        *,
        sha256: str = "",
        only: tuple[str, ...] = (),
        not_run: dict[str, str] | None = None,
        untried: dict[str, str] | None = None,
    ) -> None:
        case = CaseResult(
            name="a[1]", operators=("a",), dtype="", verdict=verdict, ratio=None, error=None, limit=None, seconds=1.0
        )
        library = LibraryResult(
            name="_C", operators=("a",), registered=("a",), cases=(case,), waived={}, untested=(), seed=1, seconds=1.0
        )
        report = Parity(
            wheel=path.name,
            sha256=sha256 or file_digest(path),
            version="1",
            torch="2",
            machine="m",
            threads=1,
            level="smoke",
            only=only,
            seed=1,
            began="2026",
            seconds=1.0,
            libraries=(library,),
            not_run=not_run or {},
            untried=untried or {},
        )
        write_reports(path.parent, report)

    def test_its_parity_is_said(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.parity(path, "passed")
        entry = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry
        assert (entry.parity, entry.gaps) == ("passed", ())
        assert entry.tried == "level smoke: 1 case of 1 operator on _C (m)"
        assert {"parity.json", "parity.html"} < set(entry.beside)
        assert check_index(Folder(tmp_path / "index")) == []

    def test_kernels_that_no_cpu_has_run_are_said(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist", untried=("AMX-FP8",))
        entry = publish_wheel(Folder(tmp_path / "before"), path, matrix).entry
        assert entry.gaps == ("AMX-FP8 of _C: compiled and audited, but no CPU has run it yet",)
        # Parity says why.
        self.parity(path, "passed", untried={"AMX-FP8 of _C": "this CPU lacks amx_fp8"})
        entry = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry
        assert (entry.parity, entry.gaps) == ("passed in part", ("AMX-FP8 of _C was not run: this CPU lacks amx_fp8",))
        assert check_index(Folder(tmp_path / "index")) == []

    def test_a_report_that_no_page_can_hold_is_not_published(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.parity(path, "passed", not_run={"_C_AVX2": "x" * 1000})
        with pytest.raises(PublishError, match="cannot be published: gaps"):
            publish_wheel(Folder(tmp_path / "index"), path, matrix)
        assert list((tmp_path / "index").iterdir()) == []

    def test_a_wheel_whose_parity_failed_is_not_published(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.parity(path, "failed")
        with pytest.raises(PublishError, match="gave wrong results"):
            publish_wheel(Folder(tmp_path / "index"), path, matrix)
        assert list((tmp_path / "index").iterdir()) == []

    def test_parity_of_some_operators_counts_for_these(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.parity(path, "passed", only=("a",))
        entry = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry
        assert (entry.parity, entry.gaps) == ("passed in part", ("only these operators were tried: a",))
        assert {"parity.json", "parity.html"} < set(entry.beside)
        self.parity(path, "failed", only=("a",))
        with pytest.raises(PublishError, match="gave wrong results"):
            publish_wheel(Folder(tmp_path / "index"), path, matrix)

    def test_many_operators_are_not_all_named(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.parity(path, "passed", only=tuple(f"an_operator_with_a_long_name_{number}" for number in range(99)))
        (gap,) = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry.gaps
        assert gap.endswith("an_operator_with_a_long_name_5 and 93 more")

    def test_a_report_that_leads_to_nothing_is_found(self, tmp_path: Path, matrix: Matrix) -> None:
        path, bucket = wheel(tmp_path / "dist"), Folder(tmp_path / "index")
        self.parity(path, "passed")
        publish_wheel(bucket, path, matrix)
        (page,) = (tmp_path / "index").glob("files/*/parity.html")
        page.write_text('<a href="parity.json">a</a> <a href="https://example.org/b">b</a> <a href="#c">c</a>')
        assert check_index(bucket) == []
        page.write_text(f'<a href="{path.name.replace("+", "%2B")}">a</a> <img src="no%20such.png">')
        (fault,) = check_index(bucket)
        assert "parity.html leads to no such.png, which is not there" in fault.what

    def test_a_report_of_another_wheel_does_not_count(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.parity(path, "passed", sha256="0" * 64)
        entry = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry
        assert entry.parity == "not run"
        assert entry.beside == ("record.json",)

    def serve(self, path: Path, *, right: bool, sha256: str = "") -> None:
        report = serving(answered(right=right), wheel=path.name, sha256=sha256 or file_digest(path))
        path.with_name("serve.json").write_text(report.model_dump_json())

    def test_it_is_listed_as_served(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.serve(path, right=True)
        entry = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry
        assert (entry.served, entry.beside) == ("passed", ("record.json", "serve.json"))
        assert check_index(Folder(tmp_path / "index")) == []

    def verify(self, path: Path, *members: str, **changes: Any) -> None:
        report = verified(*members, **({"wheel": path.name, "sha256": file_digest(path)} | changes))
        path.with_name("verify.json").write_text(report.as_text())

    @pytest.mark.parametrize(("members", "state"), [((), "reproduced"), (("vllm/a.py",), "differs")])
    def test_what_came_of_a_second_build_is_listed(
        self, tmp_path: Path, matrix: Matrix, members: tuple[str, ...], state: str
    ) -> None:
        path, bucket = wheel(tmp_path / "dist"), Folder(tmp_path / "index")
        assert publish_wheel(bucket, path, matrix).entry.reproduced is None
        self.verify(path, *members)
        entry = publish_wheel(bucket, path, matrix).entry
        assert entry.reproduced == Reproduced(
            state=state, moment="2026-11-25T03:00:00Z", varied=("umask", "hostname"), not_varied=("cpus",)
        )
        assert entry.beside == ("record.json", "verify.json")
        assert check_index(bucket) == []
        path.with_name("verify.json").unlink()
        assert publish_wheel(bucket, path, matrix).entry == entry, "it stays"

    def test_a_second_build_of_another_wheel_does_not_count(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.verify(path, sha256="0" * 64)
        entry = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry
        assert (entry.reproduced, entry.beside) == (None, ("record.json",))

    @pytest.mark.parametrize(
        ("report", "words"),
        [
            (verified("vllm/a.py"), "says 'differs'; its pages say 'reproduced'"),
            (verified(varied={"umask": "022 → 077"}), "its pages say another time or other axes"),
            (verified(sha256="1" * 64), "says 'not yet reproduced'; its pages say 'reproduced'"),
            (None, "verify.json is damaged"),
        ],
    )
    def test_pages_that_say_something_else_than_the_report(
        self, tmp_path: Path, matrix: Matrix, report: Verified | None, words: str
    ) -> None:
        path, bucket = wheel(tmp_path / "dist"), Folder(tmp_path / "index")
        self.verify(path)
        publish_wheel(bucket, path, matrix)
        (there,) = (tmp_path / "index").rglob("verify.json")
        if report and report.sha256 == "0" * 64:
            report = report.model_copy(update={"sha256": file_digest(path)})
        there.write_text(report.as_text() if report else "[]")
        (fault,) = check_index(bucket)
        assert words in fault.what
        assert fault.remedy is Remedy.PUBLISH

    def test_a_record_of_another_wheel_is_not_published(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        record = {"wheel": {"sha256": "0" * 64}, "sandbox": {"mechanism": "another one"}}
        path.with_name("record.json").write_text(json.dumps(record))
        path.with_name("operators.json").write_text("{}")
        entry = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry
        assert (entry.beside, entry.sandbox) == ((), "")

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ({"wheel": {"sha256": ""}, "sandbox": {"mechanism": "not sandboxed", "reason": "a test"}}, "not sandboxed"),
            ({"wheel": {"sha256": ""}}, ""),
        ],
    )
    def test_what_confined_the_build_is_listed(
        self, tmp_path: Path, matrix: Matrix, content: dict[str, Any], said: str
    ) -> None:
        path = wheel(tmp_path / "dist")
        content["wheel"]["sha256"] = content["wheel"]["sha256"] or file_digest(path)
        path.with_name("record.json").write_text(json.dumps(content))
        assert publish_wheel(Folder(tmp_path / "index"), path, matrix).entry.sandbox == said
        assert check_index(Folder(tmp_path / "index")) == []
        path.with_name("record.json").unlink()
        assert publish_wheel(Folder(tmp_path / "index"), path, matrix).entry.sandbox == said, "it stays"

    @pytest.mark.parametrize(
        ("parameters", "said"), [({"locked": True}, True), ({"locked": False}, False), ({}, None), (None, None)]
    )
    def test_a_wheel_that_was_not_built_locked_is_published_only_if_that_is_asked_for(
        self, tmp_path: Path, matrix: Matrix, parameters: dict[str, bool] | None, said: bool | None
    ) -> None:
        path, index = wheel(tmp_path / "dist"), Folder(tmp_path / "index")
        record: dict[str, Any] = {"wheel": {"sha256": file_digest(path)}}
        record |= {} if parameters is None else {"parameters": parameters}
        path.with_name("record.json").write_text(json.dumps(record))
        if said:
            assert publish_wheel(index, path, matrix, locked=True).entry.locked is True
        else:
            words = "was built without --locked" if said is False else "has no record next to it"
            with pytest.raises(PublishError, match=words) as caught:
                publish_wheel(index, path, matrix, locked=True)
            assert "--no-locked" in caught.value.next_step
            assert not list((tmp_path / "index").rglob("*.whl"))
        assert publish_wheel(index, path, matrix).entry.locked is said
        assert check_index(index) == []

    def test_a_wheel_that_does_not_serve_is_not_published(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.serve(path, right=False)
        with pytest.raises(PublishError, match="does not answer as it should"):
            publish_wheel(Folder(tmp_path / "index"), path, matrix)
        assert list((tmp_path / "index").iterdir()) == []

    def test_another_wheels_server_does_not_count(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.serve(path, right=False, sha256="0" * 64)
        entry = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry
        assert (entry.served, entry.beside) == ("not run", ("record.json",))

    @pytest.mark.parametrize("name", ["parity.json", "speed.json", "serve.json"])
    def test_a_report_that_is_not_json_as_all_read_it(self, tmp_path: Path, matrix: Matrix, name: str) -> None:
        path = wheel(tmp_path / "dist")
        path.with_name(name).write_text('{"ratio": NaN}')
        with pytest.raises(PublishError, match="NaN is no number"):
            publish_wheel(Folder(tmp_path / "index"), path, matrix)

    @pytest.mark.parametrize("name", ["record.json", "parity.json", "speed.json", "serve.json", "operators.json"])
    def test_a_report_that_is_a_link(self, tmp_path: Path, matrix: Matrix, name: str) -> None:
        path = wheel(tmp_path / "dist")
        path.with_name("record.json").unlink()
        (tmp_path / "secret").write_text('{"a": "the user\'s"}')
        path.with_name(name).symlink_to(tmp_path / "secret")
        with pytest.raises(PublishError, match="symbolic link"):
            publish_wheel(Folder(tmp_path / "index"), path, matrix)
        assert list((tmp_path / "index").iterdir()) == []

    @pytest.mark.parametrize("name", ["parity.json", "speed.json", "serve.json"])
    def test_a_damaged_report(self, tmp_path: Path, matrix: Matrix, name: str) -> None:
        path = wheel(tmp_path / "dist")
        path.with_name(name).write_text("{")
        with pytest.raises(PublishError, match="cannot be read"):
            publish_wheel(Folder(tmp_path / "index"), path, matrix)

    def speed(self, path: Path, *, sha256: str = "", only: tuple[str, ...] = ()) -> None:
        operators = [{"operator": name, "low": high - 0.2, "high": high} for name, high in (("b", 0.9), ("a", 0.98))]
        report = {
            "wheel": {"name": path.name, "sha256": sha256 or file_digest(path)},
            "against": {"name": "before.whl"},
            "only": only,
            "geometric_mean": 0.95,
            "operators": operators,
        }
        path.with_name("speed.json").write_text(json.dumps(report))

    def test_places_and_passwords_are_not_published(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        record = {"files": [{"source": "/home/me/.cache/a/b.cpp"}], "url": "https://me:geheim@example.org/simple"}
        path.with_name("record.json").write_text(json.dumps(record))
        publish_wheel(Folder(tmp_path / "index"), path, matrix)
        (published,) = (tmp_path / "index").glob("files/*/record.json")
        text = published.read_text()
        assert json.loads(text) == {"files": [{"source": "…/b.cpp"}], "url": "https://example.org/simple"}

    def test_its_speed_is_said(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist")
        self.speed(path)
        entry = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry
        assert entry.speed == Speed(against="before.whl", ratio=0.95, slower=("b",))
        assert "speed.json" in entry.beside
        assert check_index(Folder(tmp_path / "index")) == []

    @pytest.mark.parametrize("changes", [{"sha256": "0" * 64}, {"only": ("a",)}])
    def test_a_speed_of_something_else_does_not_count(
        self, tmp_path: Path, matrix: Matrix, changes: dict[str, Any]
    ) -> None:
        path = wheel(tmp_path / "dist")
        self.speed(path, **changes)
        entry = publish_wheel(Folder(tmp_path / "index"), path, matrix).entry
        assert entry.speed is None
        assert entry.beside == ("record.json",)

    def test_the_same_kernels_are_as_fast(self, tmp_path: Path, matrix: Matrix) -> None:
        bucket = Folder(tmp_path / "index")
        first = publish_wheel(bucket, wheel(tmp_path / "dist"), matrix).entry
        assert first.speed is None
        second = publish_wheel(bucket, wheel(tmp_path / "dist", 2), matrix).entry
        assert second.speed == Speed(against=first.filename)

    def test_a_target_that_the_matrix_does_not_have(self, tmp_path: Path, matrix: Matrix) -> None:
        path = wheel(tmp_path / "dist", note_target="x99")
        with pytest.raises(CpuwheelsError, match="x99"):
            publish_wheel(Folder(tmp_path / "index"), path, matrix)


def test_moments(root: Path) -> None:
    row = json.loads((root / "commits.json").read_text())["newest"][0]
    assert row["made"] == datetime.fromtimestamp(1_790_000_000 + 240_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
