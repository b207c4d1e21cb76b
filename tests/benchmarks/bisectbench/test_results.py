"""Results and simulations of the bisections' benchmark, and one step of the other side."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bisectbench.results import OURS, THEIRS, Results, Run, Step, as_text, wrong
from bisectbench.simulation import Prices, prices, simulate, simulated
from bisectbench.upstream import main as take_step
from buildbench.results import Machine

from cpuwheels.core.errors import UsageError

MACHINE = Machine(processor="a CPU", cpus=2, memory=1 << 34, system="Linux 6")
COSTS = Prices(assembled=10, compiled=300, known=100, new=400)


def run(side: str, wall: float, *steps: tuple[float, bool], first_bad: str = "c") -> Run:
    taken = tuple(Step(commit="c", verdict="bad", seconds=seconds, compiled=compiled) for seconds, compiled in steps)
    return Run(side=side, fault="kernel", wall=wall, first_bad=first_bad, steps=taken)


def results() -> Results:
    return Results(
        machine=MACHINE,
        began="2026-01-01",
        releases=("1.0", "2.0"),
        commits=22,
        kernel_changes=4,
        first=(run(THEIRS, 900, (400, True), (500, True)), run(OURS, 320, (300, True), (20, False))),
        warm=(run(THEIRS, 200, (100, True), (100, True)), run(OURS, 22, (12, False), (10, False))),
    )


def test_the_ratio_is_of_our_time_to_theirs() -> None:
    assert results().ratios(warm=True) == {"kernel": 0.11}
    assert results().ratios(warm=False) == {"kernel": pytest.approx(320 / 900)}
    text = as_text(results())
    assert "target: at most 0.08 with warm caches: missed (0.110)" in text
    assert "kernel fault, git bisect run: 3:20 for 2 commits (2 compiled), median 1:40, longest 1:40" in text
    slow = results().model_copy(update={"warm": (run(THEIRS, 100, (100, True)), run(OURS, 20, (20, False)))})
    assert "missed (0.200)" in as_text(slow)
    assert "target" not in as_text(results().model_copy(update={"warm": ()}))


def test_who_found_something_else_is_named() -> None:
    assert wrong(results(), {"kernel": "c"}) == []
    other = results().with_run(run(OURS, 1, (1, False), first_bad="d"), warm=True)
    assert [one.first_bad for one in wrong(other, {"kernel": "c"})] == ["d"]


def test_a_run_is_gone_on_with_only_where_nothing_else_changed(tmp_path: Path) -> None:
    now = results().model_copy(update={"began": "2026-02-02", "first": (), "warm": ()})
    assert now.resumed(results(), tmp_path) == results()
    assert results().has("kernel", OURS, warm=True)
    assert not results().has("python", OURS, warm=True)
    with pytest.raises(UsageError, match="another repository or another machine"):
        now.model_copy(update={"commits": 23}).resumed(results(), tmp_path)


class TestSimulation:
    def test_the_costs_are_the_lower_medians_of_the_run(self) -> None:
        assert prices(results()) == Prices(assembled=10, compiled=300, known=100, new=400)
        cached = run(THEIRS, 240, (120, True), (120, True))
        assert prices(results().with_run(cached, warm=False)).new == 400
        with pytest.raises(UsageError, match="lack: assembled, known"):
            prices(results().model_copy(update={"warm": ()}))

    def test_without_kernel_changes_nothing_is_compiled(self) -> None:
        found = simulate(1000, 0, COSTS, seed=1)
        assert found.compiled == 0
        assert 9 <= found.probes <= 10
        assert found.ours == (found.probes + 2) * COSTS.assembled
        assert found.theirs <= 10 * COSTS.known

    def test_what_is_at_hand_is_preferred(self) -> None:
        found = simulate(1000, 0.02, COSTS, seed=1)
        assert 0 < found.compiled < found.probes
        assert found.ours < found.theirs

    def test_the_same_seed_gives_the_same(self) -> None:
        assert simulate(300, 0.1, COSTS, seed=3) == simulate(300, 0.1, COSTS, seed=3)
        assert "| 10,000 | 10% |" in simulated(results(), seed=1)


class TestStep:
    def take(self, folder: Path, **commands: list[str]) -> tuple[int, dict]:
        subprocess.run(["git", "init", "-q", folder], check=True)
        env = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        subprocess.run(["git", "-C", folder, *env, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
        (folder / "made").mkdir()
        setting = {
            "commands": commands,
            "environment": {"PATH": "/usr/bin:/bin"},
            "remove": [str(folder / "made")],
            "tree": str(folder),
            "log": str(folder / "log"),
            "steps": str(folder / "steps.jsonl"),
        }
        (folder / "step.json").write_text(json.dumps(setting))
        code = take_step(folder / "step.json")
        return code, json.loads((folder / "steps.jsonl").read_text())

    @pytest.mark.parametrize("code", [0, 1, 125])
    def test_the_check_gives_the_verdict(self, tmp_path: Path, code: int) -> None:
        end = [sys.executable, "-c", f"raise SystemExit({code})"]
        found, step = self.take(tmp_path, build=["sh", "-c", "test ! -e made"], check=end)
        assert found == step["code"] == code
        assert step["seconds"].keys() == {"build", "check"}

    def test_what_does_not_build_is_skipped(self, tmp_path: Path) -> None:
        found, step = self.take(tmp_path, build=["sh", "-c", "exit 2"], check=["true"])
        assert found == 125
        assert step["seconds"].keys() == {"build"}
