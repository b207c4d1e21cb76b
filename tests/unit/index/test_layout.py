"""Where things lie in an index."""

from __future__ import annotations

import pytest

from cpuwheels.index.layout import companion_path, files_of, lasting_view, link, project_folder, views, wheel_path
from index_entries import COMMIT, entry


def test_a_wheel_and_what_belongs_to_it_lie_in_one_folder() -> None:
    wheel = entry(beside=("record.json", "parity.html"))
    folder = f"files/{'a' * 16}"
    assert files_of(wheel) == [
        f"{folder}/{wheel.filename}",
        f"{folder}/{wheel.filename}.metadata",
        f"{folder}/record.json",
        f"{folder}/parity.html",
    ]
    assert wheel_path(wheel) == files_of(wheel)[0]
    assert companion_path(wheel, "x.json") == f"{folder}/x.json"


@pytest.mark.parametrize(
    ("changes", "listed", "lasting"),
    [
        ({}, [COMMIT], COMMIT),
        ({"commit": None}, ["0.32.1.dev5"], "0.32.1.dev5"),
        ({"version": "0.32.0+cpu"}, [COMMIT, "0.32.0"], "0.32.0"),
        ({"version": "0.32.0+cpu", "commit": None}, ["0.32.0"], "0.32.0"),
    ],
)
def test_wheels_are_listed_by_commit_and_by_release(
    changes: dict[str, object], listed: list[str], lasting: str
) -> None:
    assert views(entry(**changes), nightly=False) == listed
    assert views(entry(**changes), nightly=True) == [*listed, "nightly"]
    assert lasting_view(entry(**changes)) == lasting


def test_links_are_relative_and_quoted() -> None:
    wheel = entry(version="0.32.0+cpu", filename="vllm-0.32.0+cpu.whl")
    assert link(project_folder("nightly"), wheel_path(wheel)) == f"../../../files/{'a' * 16}/vllm-0.32.0%2Bcpu.whl"
    assert link("", "nightly/cpu/vllm/") == "nightly/cpu/vllm"
