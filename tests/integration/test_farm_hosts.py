"""A farm on four hosts, each with a network device, an address and processes of its own, on one bridge."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuwheels.farm.kubernetes import SCHEDULER
from farms import begun, client_on, farm_on, wait_for
from hosts import Network, can_have_hosts, network
from layout import HELPERS

pytestmark = pytest.mark.skipif(not can_have_hosts(), reason="no network namespaces with a bridge can be made here")

WORKERS = ("one", "two", "three", "four")


@pytest.fixture(scope="module")
def shifted_clock(c_compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that shifts a process's clock; `tests/helpers/shifted_clock.c` says how."""
    library = tmp_path_factory.mktemp("clock") / "shifted_clock.so"
    source = HELPERS / "shifted_clock.c"
    subprocess.run([c_compiler, "-std=c17", "-O2", "-fPIC", "-shared", "-o", library, source], check=True)
    return library


@pytest.fixture
def net() -> Iterator[Network]:
    with network() as made:
        yield made


def client(net: Network, folder: Path, address: str, keys: Path, at_end: int, *sources: str) -> subprocess.Popen[str]:
    """Start a client that waits for all workers, has wheels made and tested, and then waits for so many workers."""
    return client_on(net.inside(), folder, address, keys, len(WORKERS), at_end, *sources)


def wrong_clock(library: Path, hours: int) -> dict[str, str]:
    return {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(hours * 3600)}


def worker_of(events: Path, source: str) -> str:
    """Return which worker a source's build has begun on last."""
    *_, (_, stores) = begun(events, f"build x86 {source}")
    return next(name for name in WORKERS if name in Path(stores).parts)


def test_two_of_four_hosts_are_switched_off_and_every_wheel_is_made_once(net: Network, tmp_path: Path) -> None:
    sources = ("a", "b", "c", "d", "e", "f")
    with farm_on(net, tmp_path / "farm", WORKERS) as farm:
        for source in sources:
            (farm.events / f"hang-{source}").touch()
        asking = client(net, tmp_path, farm.address, farm.keys, 2, *sources)
        wait_for(lambda: sum(bool(begun(farm.events, f"build x86 {source}")) for source in sources) == len(WORKERS))
        busy = {worker_of(farm.events, source) for source in sources if begun(farm.events, f"build x86 {source}")}
        assert busy == set(WORKERS), "each host does something"
        for number in (1, 3):
            net.switch_off(number)
        for source in sources:
            (farm.events / f"hang-{source}").unlink()
        said, _ = asking.communicate(timeout=200)
    result = json.loads(said)
    assert len(result["came"]) == 2 * len(sources)
    assert {(state, error) for state, _, error in result["came"].values()} == {("done", "")}
    assert {by for _, by, _ in result["came"].values()} == {"two", "four"}
    assert result["machines"] == ["four", "two"]
    wheels = [path.read_text().splitlines()[0] for path in (tmp_path / "client" / "dist").rglob("*.whl")]
    assert sorted(wheels) == [f"x86 {source}" for source in sources], "each wheel, and none twice"


def test_a_host_that_is_cut_off_loses_its_job_and_comes_back(net: Network, tmp_path: Path) -> None:
    with farm_on(net, tmp_path / "farm", WORKERS) as farm:
        (farm.events / "hang-a").touch()
        asking = client(net, tmp_path, farm.address, farm.keys, len(WORKERS), "a")
        wait_for(lambda: begun(farm.events, "build x86 a"))
        lost = worker_of(farm.events, "a")
        number = WORKERS.index(lost) + 1
        net.cut(number)
        wait_for(lambda: len(begun(farm.events, "build x86 a")) == 2)
        other = worker_of(farm.events, "a")
        assert other != lost
        net.mend(number)
        (farm.events / "hang-a").unlink()
        said, _ = asking.communicate(timeout=200)
    result = json.loads(said)
    assert {(state, error) for state, _, error in result["came"].values()} == {("done", "")}
    assert result["came"]["wheel x86 a"][1] == other
    assert result["machines"] == sorted(WORKERS)
    assert len(begun(farm.events, "build x86 a")) == 2


def test_workers_join_the_next_scheduler_at_the_same_address(net: Network, tmp_path: Path) -> None:
    with farm_on(net, tmp_path / "farm", WORKERS) as farm:
        (farm.events / "hang-a").touch()
        asking = client(net, tmp_path, farm.address, farm.keys, len(WORKERS), "a")
        wait_for(lambda: begun(farm.events, "build x86 a"))
        farm.process.kill()
        farm.process.wait()
        (farm.events / "hang-a").unlink()
        said, _ = asking.communicate(timeout=100)
        assert {state for state, _, _ in json.loads(said)["came"].values()} <= {"failed", "not begun"}
        assert farm.again
        assert farm.process.stdout
        farm.process.stdout.close()
        farm.process = farm.again()
        asking = client(net, tmp_path, farm.address, farm.keys, len(WORKERS), "a", "b")
        said, _ = asking.communicate(timeout=200)
    result = json.loads(said)
    assert {(state, error) for state, _, error in result["came"].values()} == {("done", "")}
    assert result["machines"] == sorted(WORKERS)


def test_hosts_whose_clocks_are_wrong_do_their_jobs(net: Network, shifted_clock: Path, tmp_path: Path) -> None:
    hours = {"one": -23, "two": 24 * 30, "three": -1}
    clocks = {name: wrong_clock(shifted_clock, shift) for name, shift in hours.items()}
    sources = ("a", "b", "c", "d", "e", "f", "g", "h")
    with farm_on(net, tmp_path / "farm", WORKERS, clocks) as farm:
        for source in sources:
            (farm.events / f"hang-{source}").touch()
        asking = client(net, tmp_path, farm.address, farm.keys, len(WORKERS), *sources)
        wait_for(lambda: sum(bool(begun(farm.events, f"build x86 {source}")) for source in sources) == len(WORKERS))
        for source in sources:
            (farm.events / f"hang-{source}").unlink()
        said, _ = asking.communicate(timeout=200)
    result = json.loads(said)
    assert {(state, error) for state, _, error in result["came"].values()} == {("done", "")}
    assert {by for _, by, _ in result["came"].values()} == set(WORKERS)


def test_a_clock_before_the_certificates_is_said(net: Network, shifted_clock: Path, tmp_path: Path) -> None:
    clocks = {"one": wrong_clock(shifted_clock, -25)}
    with farm_on(net, tmp_path / "farm", ["one"], clocks):
        wait_for(lambda: "not yet valid" in (tmp_path / "farm" / "farm.log").read_text())
        wait_for(lambda: net.hosts[1].poll() is not None)


def test_a_scheduler_is_found_by_a_name_that_its_certificate_does_not_have(net: Network, tmp_path: Path) -> None:
    with farm_on(net, tmp_path / "farm", WORKERS[:2], known_as=SCHEDULER) as farm:
        asking = client_on(net.inside(), tmp_path, farm.address, farm.keys, 2, 2, "a")
        said, _ = asking.communicate(timeout=100)
        log = (tmp_path / "farm" / "farm.log").read_text()
    result = json.loads(said)
    assert {(state, error) for state, _, error in result["came"].values()} == {("done", "")}, log
