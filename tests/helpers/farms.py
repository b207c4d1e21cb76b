"""Small farms of real processes: a scheduler and workers whose jobs are done by tests/helpers/fake_program.py."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import fake_program
from cpuwheels.config.paths import Paths
from cpuwheels.core.errors import StoppedError
from cpuwheels.core.filesystem import remove_tree
from cpuwheels.farm import slurm
from cpuwheels.farm.cluster import REJOIN_SECONDS, Place, run_scheduler, run_worker, signing_key
from cpuwheels.farm.graph import Estimate, Order, Wanted, make_graph
from cpuwheels.farm.job import Job
from cpuwheels.farm.machine import Machine
from cpuwheels.farm.security import make_certificates
from cpuwheels.farm.site import Site
from cpuwheels.farm.slurm_job import Slurm as SlurmJobs
from hosts import Network
from layout import ROOT
from slurm_cluster import Slurm

PATIENCE_SECONDS = 90.0
CLIENT = """
import json, sys, time
from pathlib import Path
from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import FarmError
from cpuwheels.farm.batch import run_batch
from cpuwheels.farm.journal import Journal
from cpuwheels.farm.remote import RemoteExecutor
from cpuwheels.farm.security import read_certificates
from farms import jobs_for, paths_in

if __name__ == "__main__":
    address, keys, folder, workers = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    with RemoteExecutor(address, read_certificates(keys)) as executor:
        while len(executor.machines()) < workers:
            time.sleep(0.1)
        jobs = jobs_for(*sys.argv[6:], level="smoke")
        came = run_batch(jobs, executor, Journal(folder / "dist"), paths_in(folder), Reporter("batch"))
        last = time.monotonic() + 60
        names = []
        while len(names) != int(sys.argv[5]) and time.monotonic() < last:
            time.sleep(0.1)
            try:
                names = sorted(executor.machines())
            except FarmError:
                break
        result = {str(one.job): [one.state, one.done.by if one.done else "", str(one.error or "")] for one in came}
        print(json.dumps({"came": result, "machines": names}))
"""
ESTIMATE = Estimate(seconds=lambda kind, _: {"kernels": 100.0, "wheel": 10.0}.get(kind, 5.0), memory=lambda _: 1 << 20)


def paths_in(folder: Path) -> Paths:
    return Paths(ROOT, folder / "cache", folder / "dist")


def site_in(
    folder: Path,
    name: str = "",
    *,
    events: Path | None = None,
    carries: bool = False,
    key: Path | None = None,
    more: Sequence[str] = (),
) -> Site:
    """Return a place whose jobs the made-up program does."""
    events = events or folder / "events"
    events.mkdir(parents=True, exist_ok=True)
    program = (sys.executable, str(fake_program.__file__), str(events), *more)
    return Site(name, paths_in(folder), work=folder / "work" if carries else None, key=key, program=program)


def machine(name: str = "this machine", memory: int = 8 << 30, features: frozenset[str] = frozenset()) -> Machine:
    can = frozenset({"build:x86", "test:x86", "serve:x86", "build:arm"})
    return Machine(name=name, cpus=2, memory=memory, can=can, features=features)


def jobs_for(
    *sources: str, level: str | None = None, kernels: str = "", priority: int = 0, **order: object
) -> tuple[Job, ...]:
    wanted = [Wanted("x86", source, kernels) for source in sources]
    return make_graph(wanted, Order(identity="", level=level, priority=priority, **order), ESTIMATE)  # type: ignore[arg-type]


def events_in(folder: Path) -> list[str]:
    path = folder / "events"
    return path.read_text().splitlines() if path.exists() else []


def begun(folder: Path, text: str) -> list[tuple[int, str]]:
    """Return process and stores of the commands that began with something."""
    found = [line.split() for line in events_in(folder) if line.startswith(f"begin {text} ")]
    return [(int(words[-2]), words[-1]) for words in found]


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)


def client_on(
    prefix: Sequence[str], folder: Path, address: str, keys: Path, workers: int, at_end: int, *sources: str
) -> subprocess.Popen[str]:
    """Start a client that waits for workers, has wheels made and tested, and then waits for so many workers.

    Args:
        prefix: What a command begins with that runs where the scheduler is reached.
        folder: Of its files.
        address: Of the scheduler.
        keys: Folder of the certificates.
        workers: For which it waits first.
        at_end: For which it waits at the end.
        sources: Of the wheels.
    """
    script = folder / "client.py"
    script.write_text(CLIENT)
    command = [*prefix, sys.executable, script, address, keys, folder / "client", workers, at_end, *sources]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, env=env)


@dataclass
class Farm:
    """A farm on the loopback device.

    Attributes:
        process: The scheduler's, with the nannies.
        address: Of the scheduler.
        keys: Folder of the certificates.
        events: Folder of the made-up program.
        again: Starts another scheduler at the same address, where that can be.
    """

    process: subprocess.Popen[str]
    address: str
    keys: Path
    events: Path
    again: Callable[[], subprocess.Popen[str]] | None = None

    def worker_of(self, command: int) -> psutil.Process:
        """Return the worker that a command runs for."""
        ours = self.process.pid
        found = psutil.Process(command).parents()
        above = next(at for at, one in enumerate(found) if one.pid == ours)
        return found[above - 1]

    def forget_kernels(self) -> None:
        """Take out of all workers' stores what earlier tests left there."""
        for folder in self.events.parent.rglob("kernels"):
            if folder.parent.parent.parent == self.events.parent:
                remove_tree(folder)


def _environment() -> dict[str, str]:
    """Return the variables of a process that runs this file."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}


@contextmanager
def farm_of(
    folder: Path, workers: Sequence[str] = ("one", "two"), *, poisoned: Sequence[str] = (), memory: int = 8 << 30
) -> Iterator[Farm]:
    """Run a farm while the block runs."""
    keys, events = folder / "keys", folder / "events"
    events.mkdir(parents=True, exist_ok=True)
    make_certificates(keys)
    told = {
        "keys": str(keys),
        "folder": str(folder),
        "workers": list(workers),
        "poisoned": list(poisoned),
        "memory": memory,
    }
    log = (folder / "farm.log").open("w")
    process = subprocess.Popen(
        [sys.executable, __file__, json.dumps(told)], stdout=subprocess.PIPE, stderr=log, text=True, env=_environment()
    )
    try:
        assert process.stdout
        address = process.stdout.readline().strip()
        assert address.startswith("tls://127.0.0.1:"), (folder / "farm.log").read_text()
        yield Farm(process, address, keys, events)
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _, left = psutil.wait_procs(children, 30)
        for child in left:
            child.kill()
        log.close()
        process.stdout.close()


@contextmanager
def farm_on(
    net: Network,
    folder: Path,
    workers: Sequence[str],
    variables: Mapping[str, Mapping[str, str]] | None = None,
    known_as: str | None = None,
) -> Iterator[Farm]:
    """Run a scheduler where the network's bridge is, and each worker on a host, numbered from 1.

    Some workers may have more variables in their environment. With a name for the scheduler, workers find it by that,
    which their ``/etc/hosts`` has.
    """
    keys, events = folder / "keys", folder / "events"
    events.mkdir(parents=True)
    make_certificates(keys)
    told = {"keys": str(keys), "folder": str(folder), "poisoned": [], "memory": 8 << 30}
    env = _environment()
    program = [sys.executable, __file__]
    with (folder / "farm.log").open("w") as log:

        def scheduler(port: int) -> tuple[subprocess.Popen[str], str]:
            words = json.dumps(told | {"workers": [], "host": net.address, "port": port})
            begun = subprocess.Popen(
                net.inside(*program, words), stdout=subprocess.PIPE, stderr=log, text=True, env=env
            )
            assert begun.stdout
            address = begun.stdout.readline().strip()
            assert address.startswith(f"tls://{net.address}:"), (folder / "farm.log").read_text()
            return begun, address

        process, address = scheduler(0)
        farm = Farm(process, address, keys, events, lambda: scheduler(int(address.rpartition(":")[2]))[0])
        try:
            for number, name in enumerate(workers, 1):
                there = address.replace(net.address, known_as) if known_as else address
                words = json.dumps(told | {"workers": [name], "join": there})
                (folder / "hosts").write_text(f"{net.address} {known_as}\n")
                by_name = ("sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', folder / "hosts")
                command = (*(by_name if known_as else ()), *program, words)
                net.start(number, *command, stdout=log, stderr=log, env=env | (variables or {}).get(name, {}))
            yield farm
        finally:
            for one in {process, farm.process}:
                one.send_signal(signal.SIGTERM)
                one.wait(30)
                assert one.stdout
                one.stdout.close()


@contextmanager
def farm_in(cluster: Slurm, folder: Path, workers: int, patience: float = 60.0) -> Iterator[Farm]:
    """Run a scheduler where the cluster's controller is, with workers that are jobs."""
    keys, events = folder / "keys", folder / "events"
    events.mkdir(parents=True)
    make_certificates(keys)
    told = {"keys": str(keys), "folder": str(folder), "poisoned": [], "memory": 8 << 30, "patience": patience}
    words = json.dumps(told | {"workers": [], "host": cluster.net.address, "jobs": workers})
    env = cluster.environment() | _environment() | {"PATH": cluster.environment()["PATH"]}
    with (folder / "farm.log").open("w") as log:
        command = cluster.inside(sys.executable, __file__, words)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env)
        try:
            assert process.stdout
            address = process.stdout.readline().strip()
            assert address.startswith("tls://"), (folder / "farm.log").read_text()
            yield Farm(process, address, keys, events)
        finally:
            process.terminate()
            process.wait(120)
            assert process.stdout
            process.stdout.close()


def _slurm(told: dict[str, Any]) -> SlurmJobs | None:
    """Return jobs that run this file; given more than one argument, it is a worker."""
    if "jobs" not in told:
        return None
    slurm.ASK_SECONDS = 1.0
    command = (sys.executable, __file__, json.dumps(told))
    logs = Path(told["folder"]) / "logs"
    return SlurmJobs(told["jobs"], command, logs, ("--mem=1000", "-c1"), folder=str(Path(told["folder"]) / "disk"))


def main() -> None:
    told = json.loads(sys.argv[1])
    if given := fake_program.options(sys.argv[2:]):
        told |= {"workers": [given["--name"]], "join": given["--farm"], "keys": given["--farm-keys"]}
        told |= {"folder": given["--folder"], "events": str(Path(told["folder"]) / "events")}
    folder, keys = Path(told["folder"]), Path(told["keys"])
    events = Path(told.get("events", folder / "events"))
    places = []
    for name in told["workers"]:
        more = ["--poisoned"] if name in told["poisoned"] else []
        site = site_in(folder / name, name, events=events, carries=True, key=signing_key(keys), more=more)
        places.append(Place(site, machine(name, told["memory"]), pause=0.1))

    def ready(address: str) -> None:
        print(address, flush=True)

    with suppress(StoppedError):
        if "join" in told:
            patience = told.get("patience", REJOIN_SECONDS)
            asyncio.run(run_worker(told["join"], keys, places[0], None, ready, patience))
        else:
            host, port, tell = (
                told.get("host", "127.0.0.1"),
                told.get("port", 0),
                functools.partial(print, file=sys.stderr),
            )
            asyncio.run(run_scheduler(keys, host, port, places, ready, tell=tell, slurm=_slurm(told)))


if __name__ == "__main__":
    main()
