"""The verdicts on a wheel: those of its own tests, and of no other wheel's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpuwheels.pipeline.recorded_build import read_record
from cpuwheels.pipeline.report.verdicts import Verdict, verdicts
from cpuwheels.pipeline.report.write import refresh_if_built
from cpuwheels.verification.parity.results import Parity
from cpuwheels.verification.serving.result import Case
from recorded_wheel import write_build
from sample_results import case, library, parity, serving, verified


def found(folder: Path) -> dict[str, Verdict]:
    return {verdict.name: verdict for verdict in verdicts(read_record(folder), folder)}


def of_this_wheel(folder: Path, result: Parity) -> Parity:
    return result.model_copy(update={"sha256": read_record(folder).wheel.sha256})


def test_what_did_not_run_is_open_and_names_its_session(tmp_path: Path) -> None:
    write_build(tmp_path)
    states = {name: (verdict.state, verdict.text) for name, verdict in found(tmp_path).items()}
    assert states == {
        "Audit": ("passed", "manylinux_2_27_x86_64; instructions not checked"),
        "Install check": ("passed", "installed, and each library loaded"),
        "Parity": ("open", "not run: nox -s parity-x86"),
        "Serving": ("open", "not run: nox -s serve-x86"),
        "Second build": ("open", "not run: nox -s verify-x86"),
    }


def test_kernels_that_no_cpu_has_run_are_listed(tmp_path: Path) -> None:
    write_build(tmp_path, untried={"_C": ("AMX-FP8", "AVX10.2")})
    assert found(tmp_path)["Audit"].details == (
        "AMX-FP8 of _C: compiled and audited, but no CPU has run it yet",
        "AVX10.2 of _C: compiled and audited, but no CPU has run it yet",
    )
    assert "AMX-FP8, AVX10.2 of" in (tmp_path / "report.html").read_text()


def test_a_wheel_that_nothing_here_runs_was_not_installed(tmp_path: Path) -> None:
    write_build(tmp_path)
    record = json.loads((tmp_path / "record.json").read_text())
    (tmp_path / "record.json").write_text(json.dumps(record | {"install_check": "not run", "tried": []}))
    assert found(tmp_path)["Install check"].state == "open"


PLACE = "on _C (Some CPU)"


@pytest.mark.parametrize(
    ("result", "state", "text"),
    [
        (parity(library("_C", case("scale[1]"))), "passed in part", f"level full: 1 case of 1 operator {PLACE}"),
        (
            parity(library("_C", case("scale[1]"), case("gelu[1]", problem="off", known="a fault"))),
            "passed in part",
            f"level full: 2 cases of 2 operators {PLACE}",
        ),
        (
            parity(library("_C", case("scale[1]", problem="far off"))),
            "failed",
            f"level full: 1 case of 1 operator {PLACE}; 1 operator wrong",
        ),
    ],
)
def test_parity_of_this_wheel(tmp_path: Path, result: Parity, state: str, text: str) -> None:
    wheel = write_build(tmp_path)
    (tmp_path / "parity.json").write_text(of_this_wheel(tmp_path, result).model_dump_json())
    verdict = found(tmp_path)["Parity"]
    assert (verdict.state, verdict.text, verdict.link) == (state, text, "parity.json")
    assert "_C_AVX512 was not run: this CPU lacks avx512f" in verdict.details
    refresh_if_built(wheel)
    page = (tmp_path / "report.html").read_text()
    assert f'<b class="{state.replace(" ", "-")}">' in page
    assert text in page


def test_parity_of_another_wheel_does_not_count(tmp_path: Path) -> None:
    write_build(tmp_path)
    (tmp_path / "parity.json").write_text(parity(library("_C", case("scale[1]"))).model_dump_json())
    assert found(tmp_path)["Parity"].text == "not run on this wheel, only on an earlier one: nox -s parity-x86"
    (tmp_path / "parity.json").write_text("{}")
    assert found(tmp_path)["Parity"].text.startswith("parity.json is of another version of cpuwheels")


def test_serving(tmp_path: Path) -> None:
    write_build(tmp_path)
    failed = Case(
        model="opt", dtype="float32", library="", wanted="", started=None, seconds=1, failure="it died", log="a.log"
    )
    result = serving(failed, sha256=read_record(tmp_path).wheel.sha256)
    (tmp_path / "serve.json").write_text(result.model_dump_json())
    verdict = found(tmp_path)["Serving"]
    assert (verdict.state, verdict.text) == ("failed", "0 of 1 starts as they should be")
    assert verdict.details == ("opt float32: it died",)
    (tmp_path / "serve.json").write_text(serving(failed, sha256="0" * 64).model_dump_json())
    assert found(tmp_path)["Serving"].state == "open"
    (tmp_path / "serve.json").write_text("[]")
    assert "another version of cpuwheels" in found(tmp_path)["Serving"].text


def test_a_second_build(tmp_path: Path) -> None:
    wheel = write_build(tmp_path)
    sha256 = read_record(tmp_path).wheel.sha256
    (tmp_path / "verify.json").write_text(verified(sha256=sha256).as_text())
    verdict = found(tmp_path)["Second build"]
    assert (verdict.state, verdict.text) == ("passed", "the same bytes; varied: umask, hostname")
    assert verdict.details == ("umask: 022 → 077", "hostname: here → there", "not varied: cpus: there is one CPU")
    (tmp_path / "verify.json").write_text(verified("vllm/a.py", sha256=sha256).as_text())
    verdict = found(tmp_path)["Second build"]
    words = "two builds that differ in umask, hostname give wheels that differ in 1 place"
    assert (verdict.state, verdict.text, verdict.link) == ("failed", words, "verify.json")
    assert verdict.details[0] == "vllm/a.py: content: first differing byte at 1"
    refresh_if_built(wheel)
    assert words in (tmp_path / "report.html").read_text()
    (tmp_path / "verify.json").write_text(verified(sha256="0" * 64).as_text())
    assert found(tmp_path)["Second build"].state == "open"
