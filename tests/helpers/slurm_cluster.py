"""A small cluster of the pinned SLURM: a controller where the network's bridge is, and a node on each host."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cpuwheels.toolchain.debian_compiler import relocate
from hosts import NETWORK, Network
from pinned_root import pinned_root

MEMORY = 3000
"""Megabytes that a node has, as its configuration says."""

_CONFIG = """
ClusterName=tests
SlurmctldHost={host}({address})
SlurmUser=nobody
SlurmdUser=nobody
AuthType=auth/munge
AuthInfo=socket={folder}/munge,cred_expire=5
CredType=cred/munge
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
ReturnToService=2
KillWait=10
SlurmdTimeout=15
MinJobAge=5
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_NODE = "NodeName={name} NodeHostname={name} NodeAddr={address} CPUs=1 RealMemory={memory} State=UNKNOWN"
# A daemon that is root wants to change groups, which no user can allow in a user namespace.
_AS_NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_SECONDS = 60.0


@cache
def slurm_root() -> Path:
    """Return the unpacked packages of SLURM and munge."""
    return pinned_root("slurm", "slurm", relocate_slurm)


def relocate_slurm(fresh: Path, place: Path) -> None:
    """Have programs find SLURM's own library, and give them the names by which they know who they are."""
    relocate(fresh, place)
    for name in ("slurmctld", "slurmd", "slurmstepd"):
        (fresh / "usr" / "sbin" / name).symlink_to(f"{name}-wlm")
    (fresh / _LIBRARIES / "libslurmfull.so").symlink_to("slurm-wlm/libslurmfull.so")


@dataclass(frozen=True)
class Slurm:
    """A cluster.

    Attributes:
        net: Its network.
        folder: Of its configuration and logs.
        nodes: Names of its nodes.
    """

    net: Network
    folder: Path
    nodes: Sequence[str]

    def environment(self) -> dict[str, str]:
        """Return the variables with which a command finds the cluster."""
        path = f"{slurm_root() / 'usr' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return os.environ | {"PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def inside(self, *command: object) -> list[str]:
        """Return a command that runs where the controller is, as the cluster's user."""
        return self.net.inside(*_AS_NOBODY, *command)

    def run(self, *command: object) -> str:
        """Run one of SLURM's commands where its controller is, and return what it prints."""
        done = subprocess.run(
            self.inside(*command), env=self.environment(), capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        return done.stdout

    def queue(self) -> dict[str, str]:
        """Return the state of each job in the queue."""
        lines = self.run("squeue", "--noheader", "--array", "--format=%i %T").splitlines()
        return dict(line.split() for line in lines)  # type: ignore[misc]

    def logs(self) -> str:
        """Return the last that its programs noted."""
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob("*.log")))


@contextmanager
def slurm_on(net: Network, folder: Path, nodes: Sequence[str]) -> Iterator[Slurm]:
    """Run a cluster with a node on each of so many hosts, numbered from 1."""
    root, folder = slurm_root(), folder.resolve()
    for name in ("state", *(f"spool-{node}" for node in nodes)):
        (folder / name).mkdir(parents=True)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    entries = [
        _NODE.format(name=name, address=f"{NETWORK}{10 + number}", memory=MEMORY)
        for number, name in enumerate(nodes, 1)
    ]
    (folder / "slurm.conf").write_text(
        _CONFIG.format(
            folder=folder,
            plugins=root / _LIBRARIES / "slurm-wlm",
            host=os.uname().nodename,
            address=net.address,
            nodes="\n".join(entries),
        )
    )
    made = Slurm(net, folder, nodes)
    sbin, env = root / "usr" / "sbin", made.environment()
    munge = [
        *(f"--{name}={folder / file}" for name, file in (("socket", "munge"), ("key-file", "munge.key"))),
        *(f"--{name}={folder / file}" for name, file in (("pid-file", "munge.pid"), ("seed-file", "munge.seed"))),
    ]
    commands = ([sbin / "munged", "--foreground", "--force", *munge], [sbin / "slurmctld", "-D"])
    running = []
    with (folder / "output.log").open("w") as log:
        try:
            for command in commands:
                running.append(subprocess.Popen(net.inside(*_AS_NOBODY, *command), stdout=log, stderr=log, env=env))
                _wait_for((folder / "munge").exists, made)
            for number, name in enumerate(nodes, 1):
                daemon = [sbin / "slurmd", "-D", "-N", name, "-d", sbin / "slurmstepd"]
                net.start(number, *_AS_NOBODY, *daemon, stdout=log, stderr=log, env=env)
            _wait_for(lambda: made.run("sinfo", "--noheader", "--format=%T").split() == ["idle"], made)
            yield made
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait(_SECONDS)


def _wait_for(condition: Callable[[], object], cluster: Slurm) -> None:
    end = time.monotonic() + _SECONDS
    while True:
        try:
            if condition():
                return
        except AssertionError:
            pass
        assert time.monotonic() < end, cluster.logs()
        time.sleep(0.1)
