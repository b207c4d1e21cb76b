from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.errors import MatrixError
from cpuwheels.wheel.contents import Explanation, compare_contents, load_explanations

CUDA = Explanation(side="upstream", files=("vllm/_cuda*.so", "vllm/gpu/*"), why="CUDA")
CPU = Explanation(side="ours", files=("vllm/_C.so",), why="CPU")


@pytest.mark.parametrize(
    ("ours", "theirs", "faults"),
    [
        (["vllm/_C.so", "a"], ["vllm/_cuda1.so", "vllm/gpu/x/y.py", "a"], []),
        (
            ["vllm/_C.so"],
            ["vllm/_cuda1.so", "vllm/gpu/x", "vllm/new.py"],
            ["vllm/new.py is only in upstream's wheel"],
        ),
        (
            ["vllm/_C.so", "vllm/own.py"],
            ["vllm/_cuda1.so", "vllm/gpu/x"],
            ["vllm/own.py is only in our wheel"],
        ),
        (["vllm/_C.so"], ["vllm/_cuda1.so"], ["explanation 'vllm/gpu/*' (CUDA) explains nothing"]),
        (
            ["vllm/_C.so", "vllm/_cuda1.so"],
            ["vllm/gpu/x"],
            ["vllm/_cuda1.so is only in our wheel", "explanation 'vllm/_cuda*.so' (CUDA) explains nothing"],
        ),
    ],
)
def test_differences_and_explanations_match_both_ways(ours: list[str], theirs: list[str], faults: list[str]) -> None:
    assert compare_contents(ours, theirs, [CUDA, CPU]) == faults


def test_the_local_version_of_dist_info_does_not_count() -> None:
    ours = ["v-1.0+cpu.dist-info/METADATA", "v-1.0+cpu.dist-info/note.json", "v/"]
    explained = Explanation(side="ours", files=(".dist-info/note.json",), why="note")
    assert compare_contents(ours, ["v-1.0.dist-info/METADATA"], [explained]) == []


def test_the_explanations_are_a_strict_file(tmp_path: Path) -> None:
    path = tmp_path / "differences.yaml"
    path.write_text("upstream: a.whl\nsha256: " + "0" * 64 + "\ndifferences:\n  - side: ours\n    files: [a]\n    whi: b\n")
    with pytest.raises(MatrixError, match="did you mean 'why'"):
        load_explanations(path)
