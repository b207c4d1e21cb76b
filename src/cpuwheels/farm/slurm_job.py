"""The script of a job of SLURM that runs a worker, with stores in a folder of its own on the node's disk."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Folders of jobs that were killed are nobody's: their locks are free.
_SCRIPT = Template("""#!/bin/sh
#SBATCH --signal=B:TERM@60
#SBATCH --requeue
#SBATCH --open-mode=append
umask 077
name=slurm-$${SLURM_ARRAY_JOB_ID}-$${SLURM_ARRAY_TASK_ID}$${SLURM_RESTART_COUNT:+-$$SLURM_RESTART_COUNT}
base=$folder/cpuwheels-farm-$$(id -u)
mkdir -p "$$base"
[ -O "$$base" ] || { echo "$$base on $$(hostname) cannot be used: somebody else's" >&2; exit 73; }
exec 8>"$$base/.lock"
flock 8
for left in "$$base"/slurm-*; do
  [ ! -d "$$left" ] || flock --nonblock "$$left" rm -rf "$$left"
done
mkdir "$$base/$$name" || exit 73
exec 9<"$$base/$$name"
flock 9
exec 8>&-
echo "$$name on $$(hostname), in $$base/$$name"
$command --name "$$name" --folder "$$base/$$name" &
worker=$$!
trap 'kill "$$worker" 2>/dev/null' TERM
wait "$$worker"
code=$$?
while kill -0 "$$worker" 2>/dev/null; do
  wait "$$worker"
  code=$$?
done
rm -rf "$$base/$$name"
exit "$$code"
""")
_NODE_DISK = '"${SLURM_TMPDIR:-${TMPDIR:-/tmp}}"'


@dataclass(frozen=True)
class Slurm:
    """What is asked of SLURM.

    Attributes:
        workers: How many jobs, each with a worker.
        command: What runs this program on a node.
        logs: Folder that the nodes see, for what the jobs print.
        options: Of sbatch.
        folder: Folder on a node's own disk, for stores; what the job has for temporary files when None.
        more: Options of each worker.
    """

    workers: int
    command: tuple[str, ...]
    logs: Path
    options: tuple[str, ...] = ()
    folder: str | None = None
    more: tuple[str, ...] = ()


def job_script(slurm: Slurm, address: str, keys: Path) -> str:
    """Return the script of a job: it has the path of the certificates, and nothing of them.

    Args:
        slurm: What is asked for.
        address: Of the scheduler.
        keys: Folder of the certificates.
    """
    command = [*slurm.command, "farm", "worker", "--farm", address, "--farm-keys", str(keys), *slurm.more]
    folder = shlex.quote(slurm.folder) if slurm.folder else _NODE_DISK
    return _SCRIPT.substitute(command=shlex.join(command), folder=folder)
