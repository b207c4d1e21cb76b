"""A nightly job whose wheels a farm makes and tests: what the publisher gets, and what it gets of a wrong commit."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from nightly_projects import Nightly, add_commit, nightly_project
from tiny_farm import tiny_farm
from tiny_project import Tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nightly(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Nightly:
    return nightly_project(tiny, tmp_path_factory.mktemp("nightly"))


@pytest.fixture(scope="module")
def farm(nightly: Nightly, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    with tiny_farm(nightly.tiny, tmp_path_factory.mktemp("farm"), nightly.clone) as (address, keys, _):
        yield ("--build", "--farm", address, "--farm-keys", str(keys))


def states(summary: dict) -> dict[str, str]:
    return {each["source"]: each["state"] for each in summary["outcomes"]}


def test_a_farm_makes_the_wheels_of_a_night(nightly: Nightly, farm: tuple[str, ...]) -> None:
    text = (nightly.clone / "csrc" / "cpu" / "ops.cpp").read_text()
    right = [add_commit(nightly, "one"), add_commit(nightly, "two")]
    uncompilable = add_commit(nightly, "three", "no C++")
    wrong = add_commit(nightly, "four", text.replace("static_cast<float>(factor)", "static_cast<float>(factor) * 2"))
    code, summary, said = nightly.run("--since", "v0.1.0", *farm)
    assert code == 42, said
    assert states(summary) == {right[0]: "built", right[1]: "built", uncompilable: "failed", wrong: "wrong"}
    reasons = {each["source"]: each["reason"] for each in summary["outcomes"]}
    assert "failed: " in reasons[uncompilable], reasons
    assert "gave wrong results: scale" in reasons[wrong], reasons
    assert "kernels x86" in said, "two of the commits have the same kernels"

    night = nightly.tiny.dist / "nightly"
    for commit in right:
        folder = night / "ready" / f"x86-{commit}"
        assert json.loads((folder / "parity.json").read_text())["libraries"], said
        assert "passed" in (folder / "report.html").read_text()
        record = json.loads((folder / "record.json").read_text())
        assert record["source"]["commit"] == commit
    kept = night / "kept" / f"x86-{wrong[:12]}"
    assert list(kept.glob("x86/*/parity.json"))
    assert not list((night / "farm" / "x86").glob("*")), "what was taken is not there twice"

    code, summary, said = nightly.run("--since", "v0.1.0", "--publish")
    assert code == 42, said
    assert states(summary) == {right[0]: "published", right[1]: "published", uncompilable: "failed", wrong: "wrong"}
    for commit in right:
        assert (nightly.index / commit / "cpu" / "vllm" / "index.html").is_file()

    # What is published is not made again; what was not is tried again.
    code, summary, said = nightly.run("--since", "v0.1.0", *farm)
    assert code == 42, said
    assert states(summary) == {right[0]: "there", right[1]: "there", uncompilable: "failed", wrong: "wrong"}


def test_a_night_without_its_farm_ends_with_what_to_do(nightly: Nightly, farm: tuple[str, ...]) -> None:
    add_commit(nightly, "five")
    away = [word if not word.startswith("tls:") else "tls://127.0.0.1:9" for word in farm]
    code, _, said = nightly.run("--since", "v0.1.0", *away)
    assert code == 68, said
    assert "the scheduler does not answer" in said
