"""A farm whose workers are jobs of a real SLURM, with two nodes on hosts of their own (locks/slurm-amd64.yaml)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuwheels.core.errors import FarmError
from cpuwheels.farm.allocation import RESERVE
from farms import Farm, begun, farm_in, wait_for
from farms import client_on as client
from hosts import can_have_hosts, network
from layout import ROOT
from slurm_cluster import Slurm, slurm_on

pytestmark = pytest.mark.skipif(not can_have_hosts(), reason="no network namespaces with a bridge can be made here")

NODES = ("one", "two")
BUILD = "build x86 a"
WORKER = re.compile(r"slurm-(\d+)-(\d+)(-\d+)?")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with network() as net, slurm_on(net, tmp_path_factory.mktemp("slurm"), NODES) as made:
        yield made


def worker_of(farm: Farm) -> str:
    """Return the worker that has begun the build last, by the folder of its stores."""
    _, stores = begun(farm.events, BUILD)[-1]
    found = WORKER.search(stores)
    assert found
    return found.group()


def job_of(worker: str) -> str:
    """Return a worker's job as SLURM's commands have it."""
    found = WORKER.fullmatch(worker)
    assert found
    return f"{found[1]}_{found[2]}"


def running(cluster: Slurm) -> int:
    return list(cluster.queue().values()).count("RUNNING")


def left(folder: Path) -> list[Path]:
    return list((folder / "disk").glob("*/slurm-*"))


@pytest.mark.parametrize("way", ["scancel", "scancel --signal=KILL --full", "scontrol requeue"])
def test_a_job_whose_worker_slurm_takes_away_is_done_by_another(cluster: Slurm, tmp_path: Path, way: str) -> None:
    with farm_in(cluster, tmp_path / "farm", len(NODES)) as farm:
        (farm.events / "hang-a").touch()
        asking = client(cluster.inside(), tmp_path, farm.address, farm.keys, len(NODES), len(NODES), "a", "b")
        wait_for(lambda: begun(farm.events, BUILD))
        lost = worker_of(farm)
        cluster.run(*way.split(), job_of(lost))
        wait_for(lambda: len(begun(farm.events, BUILD)) == 2)
        assert worker_of(farm) != lost
        (farm.events / "hang-a").unlink()
        said, _ = asking.communicate(timeout=200)
        result = json.loads(said)
        assert {(state, error) for state, _, error in result["came"].values()} == {("done", "")}
        assert len(result["came"]) == 4
        # A worker that is there again has another name, so that the scheduler does not take it for the lost one.
        assert len(result["machines"]) == len(NODES)
        assert lost not in result["machines"]
        again = f"{lost}-1" in result["machines"]
        assert again == (way == "scontrol requeue"), result["machines"]
        assert len(begun(farm.events, BUILD)) == 2
    assert farm.process.returncode == 0
    assert cluster.queue() == {}
    assert left(tmp_path / "farm") == []
    wheels = [path.read_text().splitlines()[0] for path in (tmp_path / "client" / "dist").rglob("*.whl")]
    assert sorted(wheels) == ["x86 a", "x86 b"]


def test_workers_end_when_the_scheduler_was_killed(cluster: Slurm, tmp_path: Path) -> None:
    with farm_in(cluster, tmp_path / "farm", len(NODES) + 1, patience=3.0) as farm:
        wait_for(lambda: running(cluster) == len(NODES))
        wait_for(lambda: len(list((tmp_path / "farm" / "logs").glob("*.log"))) == len(NODES))
        for log in (tmp_path / "farm" / "logs").glob("*.log"):
            wait_for(lambda log=log: "tls://" in log.read_text())  # type: ignore[misc]
        farm.process.kill()
        farm.process.wait()
        assert cluster.queue(), "nobody has cancelled them"
        # The third one has waited for a node; it finds no scheduler and ends, too.
        wait_for(lambda: cluster.queue() == {})
    assert left(tmp_path / "farm") == []


def up(cluster: Slurm, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start the real command, with its real workers."""
    places = ("--root", ROOT, "--cache", folder / "cache", "--dist", folder / "dist")
    command = (sys.executable, "-P", "-m", "cpuwheels", *places, "farm", "up", "--host", cluster.net.address, *words)
    return subprocess.Popen(
        cluster.inside(*command),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.environment() | {"TMPDIR": str(folder)},
    )


def test_the_command_starts_workers_with_the_share_that_slurm_gives_them(cluster: Slurm, tmp_path: Path) -> None:
    process = up(cluster, tmp_path, "--slurm", "2", "--slurm-options", "--mem=1500 --cpus-per-task=1")
    assert process.stdout
    address = process.stdout.readline().strip()
    try:
        asking = """
import json, sys, time
from pathlib import Path
from cpuwheels.farm.remote import RemoteExecutor
from cpuwheels.farm.security import read_certificates
with RemoteExecutor(sys.argv[1], read_certificates(Path(sys.argv[2]))) as executor:
    while len(found := executor.machines()) < 2:
        time.sleep(0.1)
    print(json.dumps({name: dict(offered) for name, offered in found.items()}))
"""
        keys = tmp_path / "dist" / "farm" / "keys"
        command = cluster.inside(sys.executable, "-c", asking, address, keys)
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        script = cluster.run("scontrol", "write", "batch_script", next(iter(cluster.queue())), "-")
        logs = "".join(path.read_text() for path in (tmp_path / "dist" / "farm" / "slurm").iterdir())
        assert done.returncode == 0, done.stderr + logs
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=120)
    machines = json.loads(done.stdout)
    assert {machine["memory"] for machine in machines.values()} == {(1500 << 20) - RESERVE}, errors
    assert all(machine["build:x86"] for machine in machines.values())
    assert process.returncode == 130, errors
    assert cluster.queue() == {}
    assert str(keys) in script
    secrets = [line for path in keys.iterdir() for line in path.read_text().splitlines() if len(line) > 30]
    assert len(secrets) > 5
    assert not [line for line in secrets if line in script + logs + errors], "nothing of the certificates"
    assert list(tmp_path.glob("cpuwheels-farm-*/slurm-*")) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--slurm-options", "--partition=none"), "invalid partition specified: none"),
        (("--slurm-options", "--mem=9000G"), "Memory specification can not be satisfied"),
        (("--farm-keys", "others"), "others can read farm.key"),
    ],
)
def test_what_slurm_refuses_and_jobs_that_end_at_once(
    cluster: Slurm, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    if "others" in words:
        process = up(cluster, tmp_path, "--slurm", "1", "--folder", "/proc/none")
        says = "before its worker had joined"
    else:
        process = up(cluster, tmp_path, "--slurm", "2", *words)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == FarmError.exit_code, errors
    assert says in errors
    if "/proc/none" in errors:
        assert "mkdir" in errors, "what the job has printed"
    assert cluster.queue() == {}
