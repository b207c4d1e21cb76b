from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import MatrixError
from cpuwheels.wheel.core_metadata import read_project
from wheel_contents import Explanation, compare_contents, load_explanations, metadata_names

if TYPE_CHECKING:
    from pathlib import Path

CUDA = Explanation(side="upstream", names=("vllm/_cuda*.so", "vllm/gpu/*"), why="CUDA")
CPU = Explanation(side="ours", names=("vllm/_C.so",), why="CPU")


@pytest.mark.parametrize(
    ("ours", "theirs", "faults"),
    [
        (["vllm/_C.so", "a"], ["vllm/_cuda1.so", "vllm/gpu/x/y.py", "a"], []),
        (["vllm/_C.so"], ["vllm/_cuda1.so", "vllm/gpu/x", "vllm/new.py"], ["vllm/new.py is only in upstream's wheel"]),
        (["vllm/_C.so", "vllm/own.py"], ["vllm/_cuda1.so", "vllm/gpu/x"], ["vllm/own.py is only in our wheel"]),
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
    explained = Explanation(side="ours", names=(".dist-info/note.json",), why="note")
    assert compare_contents(ours, ["v-1.0.dist-info/METADATA"], [explained]) == []


def test_the_explanations_are_a_strict_file(tmp_path: Path) -> None:
    path = tmp_path / "differences.yaml"
    path.write_text(
        "upstream: a.whl\nsha256: " + "0" * 64 + "\nmetadata: []\nfiles:\n  - side: ours\n    names: [a]\n    whi: b\n"
    )
    with pytest.raises(MatrixError, match="did you mean 'why'"):
        load_explanations(path)


def test_metadata_as_names() -> None:
    text = (
        "Metadata-Version: 2.4\nName: demo\nVersion: 1\nLicense-Expression: MIT\nLicense-File: LICENSE\n"
        "Requires-Python: >=3.11\nClassifier: A :: B\nProject-URL: Chat, https://e.org\n"
        'Requires-Dist: Some_Name>=2\nRequires-Dist: av==1; extra == "audio"\nProvides-Extra: empty\n'
    )
    assert metadata_names(read_project(text.encode(), "[console_scripts]\nrun = demo:main\n")) == [
        "classifiers/A :: B",
        "entry-points/console_scripts/run",
        "extras/audio",
        "extras/audio/av",
        "extras/empty",
        "license-files/LICENSE",
        "license/MIT",
        "name/demo",
        "python/>=3.11",
        "requires/some-name",
        "urls/Chat",
    ]
