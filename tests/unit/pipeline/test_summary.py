"""The summary at the end of a build. Integration tests run the commands that it shows."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path

import pytest

from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.core.console import Reporter
from cpuwheels.pipeline.built_wheel import BuiltWheel
from cpuwheels.pipeline.summary import summary_lines
from recorded_wheel import write_build

NOTE = "oneDNN v3.13 cannot be reached; building with the fallback 3.7.2 instead. The build record says so."
JUDGED = {"file": "vllm/_C.abi3.so", "march": "generic64", "forms": 3, "guarded": [], "unjudged": []}


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


def finished(path: Path, *notes: str) -> BuiltWheel:
    return BuiltWheel(
        path=path,
        sha256="a" * 64,
        size=19 << 20,
        versions=("GLIBC_2.27", "GLIBCXX_3.4.21"),
        policy=path.stem.rpartition("-")[2],
        key="k",
        compiled=True,
        notes=notes,
    )


def said(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def test_a_note_is_said_once_though_the_record_has_it_without_paths(tmp_path: Path, matrix: Matrix) -> None:
    path = write_build(tmp_path / "dist" / "x86" / "0.32.0")
    here, other = f"no torch in {tmp_path}/w or /opt/wheels", "no torch in $HERE/w or …/wheels"
    places = {tmp_path: "$HERE"}
    built = finished(path, other, "no torch in …/elsewhere")
    lines = summary_lines(built, matrix.target("x86"), [here], foreign=False, here=tmp_path, width=400, places=places)
    notes = [line.split(maxsplit=1)[1] for line in lines if line.startswith("  NOTE")]
    assert notes == [here, "no torch in …/elsewhere"]


def test_a_wheel_for_this_machine(tmp_path: Path, matrix: Matrix) -> None:
    path = write_build(
        tmp_path / "dist" / "x86" / "0.32.0",
        instructions=[JUDGED],
        facts={"alternates": ("oneDNN 3.7.2 in place of v3.13",)},
    )
    built = finished(path, "before", NOTE)
    lines = summary_lines(built, matrix.target("x86"), [NOTE, "short"], foreign=False, here=tmp_path, width=60)
    assert said(lines) == textwrap.dedent(
        """\
        built vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl
          size      19 MiB
          tag       cp38-abi3-manylinux_2_27_x86_64
          sha256    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
          torch     2.13.0+cpu
          floor     manylinux_2_27_x86_64 (GLIBC_2.27,
                    GLIBCXX_3.4.21)
          fallbacks oneDNN 3.7.2 in place of v3.13
          audit     passed: manylinux_2_27_x86_64; instructions of 1
                    binaries checked
          loads     passed: installed, and each library loaded
          parity    not run: nox -s parity-x86
          serving   not run: nox -s serve-x86
          rebuilt   not run: nox -s verify-x86
          report    dist/x86/0.32.0/report.html
          record    dist/x86/0.32.0/record.json
          NOTE      before
          NOTE      oneDNN v3.13 cannot be reached; building with
                    the fallback 3.7.2 instead. The build record
                    says so.
          NOTE      short
        Install it, with uv or with pip:
          uv pip install dist/x86/0.32.0/vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl --torch-backend cpu
          pip install dist/x86/0.32.0/vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl \
--extra-index-url https://download.pytorch.org/whl/cpu
        Next:
          nox -s parity-x86     check its kernels
          nox -s serve-x86      serve small models from it
        """
    )


@pytest.mark.parametrize(
    ("target", "platform", "torch", "expected"),
    [
        (
            "arm",
            "manylinux_2_27_aarch64",
            "2.13.0+cpu",
            """\
            Install it on a machine with Linux aarch64, with uv or with pip:
              uv pip install vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_aarch64.whl --torch-backend cpu
              pip install vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_aarch64.whl \
--extra-index-url https://download.pytorch.org/whl/cpu
            Next:
              nox -s parity-arm     check its kernels
            """,
        ),
        (
            "macos",
            "macosx_14_0_arm64",
            "2.13.0",
            """\
            Install it on a machine with macOS arm64, with uv or with pip:
              uv pip install vllm-0.32.0+cpu-cp38-abi3-macosx_14_0_arm64.whl
              pip install vllm-0.32.0+cpu-cp38-abi3-macosx_14_0_arm64.whl
            """,
        ),
    ],
)
def test_a_wheel_for_another_machine(
    tmp_path: Path, matrix: Matrix, target: str, platform: str, torch: str, expected: str
) -> None:
    requires = ("torch==2.13.0+cpu; platform_system == 'Linux'", "torch==2.13.0; platform_system == 'Darwin'")
    path = write_build(tmp_path / "dist", target=target, platform=platform, requires=requires)
    lines = summary_lines(finished(path), matrix.target(target), [], foreign=True, here=tmp_path, width=80)
    assert f"  torch     {torch}" in lines
    assert said(lines[next(number for number, line in enumerate(lines) if line.startswith("Install")) :]) == (
        textwrap.dedent(expected)
    )


def test_a_path_with_spaces_is_one_word_and_on_one_line(tmp_path: Path, matrix: Matrix) -> None:
    path = write_build(tmp_path / "a folder with a long name and spaces" / "x")
    lines = summary_lines(finished(path), matrix.target("x86"), [], foreign=False, here=tmp_path / "c", width=40)
    assert f"  report    {path.with_name('report.html')}" in lines
    assert f"  uv pip install '{path}' --torch-backend cpu" in lines


def test_only_the_first_line_begins_with_the_target(reporter: Reporter, story: io.StringIO) -> None:
    reporter.summary(["built [a]", "  b [c] " + "d" * 300])
    assert story.getvalue() == "[test] built [a]\n  b [c] " + "d" * 300 + "\n"
