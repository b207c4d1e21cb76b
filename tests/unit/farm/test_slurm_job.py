"""The script of a job."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cpuwheels.farm.slurm_job import Slurm, job_script

COMMAND = ("/opt/a python", "-m", "it's")


@pytest.mark.parametrize("folder", [None, "/local/my disk"])
def test_words_stay_words(folder: str | None, tmp_path: Path) -> None:
    script = job_script(Slurm(1, COMMAND, tmp_path, folder=folder), "tls://10.0.0.1:9", Path("/keys of $HOME"))
    assert "'/opt/a python' -m 'it'\"'\"'s' farm worker --farm tls://10.0.0.1:9 --farm-keys '/keys of $HOME'" in script
    assert ("'/local/my disk'/cpuwheels-farm-" if folder else '"${SLURM_TMPDIR:-${TMPDIR:-/tmp}}"/cpuw') in script
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    first, *others = script.splitlines()
    assert first == "#!/bin/sh"
    assert others[0].startswith("#SBATCH"), "sbatch reads no option after a command"


def test_a_folder_that_is_somebody_elses_is_not_used(tmp_path: Path) -> None:
    script = job_script(Slurm(1, ("true",), tmp_path, folder=str(tmp_path)), "tls://10.0.0.1:9", tmp_path)
    script = script.replace('[ -O "$base" ]', "false")
    env = {"PATH": "/usr/bin:/bin", "SLURM_ARRAY_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "2"}
    done = subprocess.run(["sh"], input=script, text=True, capture_output=True, check=False, env=env)
    assert done.returncode == 73
    assert "somebody else's" in done.stderr
