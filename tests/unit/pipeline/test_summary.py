"""What a build says at its end. An integration test runs the command that it shows."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path

import pytest

from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.core.console import Reporter
from cpuwheels.pipeline.built_wheel import BuiltWheel
from cpuwheels.pipeline.summary import summary_lines

NOTE = "oneDNN v3.13 cannot be reached; building with the fallback 3.7.2 instead. The build record says so."


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


def finished(folder: Path, platform: str, *notes: str) -> BuiltWheel:
    path = folder / f"vllm-0.32.0+cpu-cp38-abi3-{platform}.whl"
    folder.mkdir(parents=True)
    for name in ("report.html", "record.json"):
        (folder / name).write_text("")
    return BuiltWheel(
        path=path, sha256="a" * 64, size=19 << 20, versions=(), policy="", key="k", compiled=True, notes=notes
    )


def said(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def test_a_wheel_for_this_machine(tmp_path: Path, matrix: Matrix) -> None:
    built = finished(tmp_path / "dist" / "x86" / "0.32.0", "manylinux_2_27_x86_64", "before", NOTE)
    lines = summary_lines(built, matrix.target("x86"), [NOTE, "short"], foreign=False, here=tmp_path, width=60)
    assert said(lines) == textwrap.dedent(
        """\
        built vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl
          size      19 MiB
          platform  manylinux_2_27_x86_64
          report    dist/x86/0.32.0/report.html
          record    dist/x86/0.32.0/record.json
          NOTE      before
          NOTE      oneDNN v3.13 cannot be reached; building with
                    the fallback 3.7.2 instead. The build record
                    says so.
          NOTE      short
        Install it:
          uv pip install dist/x86/0.32.0/vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl --torch-backend cpu
        Next:
          nox -s parity-x86     check its kernels
          nox -s serve-x86      serve small models from it
        """
    )


@pytest.mark.parametrize(
    ("target", "platform", "expected"),
    [
        (
            "arm",
            "manylinux_2_27_aarch64",
            """\
            Install it on a machine with Linux aarch64:
              uv pip install vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_aarch64.whl --torch-backend cpu
            Next:
              nox -s parity-arm     check its kernels
            """,
        ),
        (
            "macos",
            "macosx_14_0_arm64",
            """\
            Install it on a machine with macOS arm64:
              uv pip install vllm-0.32.0+cpu-cp38-abi3-macosx_14_0_arm64.whl
            """,
        ),
    ],
)
def test_a_wheel_for_another_machine(tmp_path: Path, matrix: Matrix, target: str, platform: str, expected: str) -> None:
    built = finished(tmp_path / "dist", platform)
    lines = summary_lines(built, matrix.target(target), [], foreign=True, here=tmp_path, width=80)
    assert said(lines[5:]) == textwrap.dedent(expected)


def test_a_wheel_elsewhere_that_was_not_compiled(tmp_path: Path, matrix: Matrix) -> None:
    built = finished(tmp_path / "a b", "manylinux_2_27_x86_64")
    built.path.with_name("report.html").unlink()
    text = said(summary_lines(built, matrix.target("x86"), [], foreign=False, here=tmp_path / "c", width=80))
    assert "report" not in text
    assert f"uv pip install '{built.path}' --torch-backend cpu" in text


def test_only_the_first_line_begins_with_the_target(reporter: Reporter, story: io.StringIO) -> None:
    reporter.summary(["built [a]", "  b [c] " + "d" * 300])
    assert story.getvalue() == "[test] built [a]\n  b [c] " + "d" * 300 + "\n"
