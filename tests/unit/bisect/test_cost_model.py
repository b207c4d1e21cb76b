"""What it takes to try a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.bisect.cost_model import (
    ASSEMBLED_SECONDS,
    COMPILED_SECONDS,
    RECOMPILED_SECONDS,
    UNBUILDABLE_SECONDS,
    Costs,
    costs_of,
)
from cpuwheels.bisect.search import Verdict
from cpuwheels.bisect.state import Probe
from cpuwheels.fetch.git import Git
from cpuwheels.kernels.depfile import Reads
from cpuwheels.kernels.fingerprint import tree_fingerprint
from cpuwheels.source.repository import Repository
from sample_source import commit, git, write_tree

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.bisect.state import WheelFrom
    from cpuwheels.core.store import Store

READS = Reads(files=("CMakeLists.txt", "csrc/cpu/ops.cpp"), folders=("csrc/cpu",))


def probe(name: str, wheel_from: WheelFrom) -> Probe:
    return Probe(commit=name * 40, verdict=Verdict.SKIP, reason="", seconds=0, wheel_from=wheel_from)


def test_kernels_come_to_hand_and_others_prove_unbuildable() -> None:
    costs = Costs([{"a" * 40: "one", "b" * 40: "one", "c" * 40: "two", "d" * 40: "three"}], [])
    assert {costs(name * 40) for name in "abcd"} == {COMPILED_SECONDS}
    costs.learn(probe("d", "index"))
    costs.learn(probe("a", "build"))
    costs.learn(probe("c", "none"))
    assert [costs(name * 40) for name in "abcd"] == [
        ASSEMBLED_SECONDS,
        ASSEMBLED_SECONDS,
        UNBUILDABLE_SECONDS,
        COMPILED_SECONDS,
    ]
    assert costs.different(["a" * 40, "b" * 40, "c" * 40, "d" * 40]) == 3
    assert costs.different(["a" * 40, "b" * 40]) == 1


@pytest.mark.parametrize(
    ("wheel_from", "seconds"), [("build", RECOMPILED_SECONDS), ("farm", COMPILED_SECONDS), ("none", COMPILED_SECONDS)]
)
def test_who_shares_a_compiler_cache_compiles_less(wheel_from: WheelFrom, seconds: float) -> None:
    kernels, programs = {name * 40: name for name in "abc"}, {"a" * 40: "one", "b" * 40: "one", "c" * 40: "two"}
    costs = Costs([kernels], [], programs)
    assert {costs(name * 40) for name in "abc"} == {COMPILED_SECONDS}
    costs.learn(probe("a", wheel_from))
    assert costs("b" * 40) == seconds
    assert costs("c" * 40) == COMPILED_SECONDS
    assert Costs([kernels], ["a"], programs)("b" * 40) == RECOMPILED_SECONDS, "of an earlier run"


@pytest.mark.usefixtures("plain_git")
def test_the_store_tells_what_is_at_hand(tmp_path: Path, store: Store) -> None:
    folder = write_tree(tmp_path / "vllm", {"csrc/gpu.cu": "one\n"})
    names = [commit(folder)]
    marked = tree_fingerprint(folder, READS)
    for path, text in [("csrc/gpu.cu", "two\n"), ("csrc/cpu/ops.cpp", "other\n"), ("vllm/a.py", "")]:
        (folder / path).write_text(text)
        names.append(commit(folder))
    repository = Repository(Git(folder), str(folder))
    assert [costs_of(repository, names, store, "x86")(name) for name in names] == [COMPILED_SECONDS] * 4

    (store.root / "reads" / "some").mkdir(parents=True)
    (store.root / "reads" / "some" / "one.json").write_text(READS.model_dump_json())
    (store.root / "reads" / "some" / "damaged.json").write_text("{")
    (store.root / "classes" / "x86").mkdir(parents=True)
    (store.root / "classes" / "x86" / marked).write_text("key\n")
    assert costs_of(repository, names, store, "x86")(names[0]) == COMPILED_SECONDS, "its kernels are gone"
    (store.root / "kernels" / "key").mkdir(parents=True)
    costs = costs_of(repository, names, store, "x86")
    assert [costs(name) for name in names] == [ASSEMBLED_SECONDS] * 2 + [RECOMPILED_SECONDS] * 2
    assert costs.different(names) == 2
    assert costs_of(repository, names, store, "arm")(names[0]) == COMPILED_SECONDS
    assert git(folder, "status", "--porcelain") == ""
