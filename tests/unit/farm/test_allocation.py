"""What a batch system's variables give to a worker."""

from __future__ import annotations

import pytest

from cpuwheels.farm.allocation import RESERVE, Allocation, allocation

GIB = 1 << 30


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Allocation()),
        ({"SLURM_MEM_PER_NODE": "4096"}, Allocation()),
        ({"SLURM_JOB_ID": "1"}, Allocation()),
        ({"SLURM_JOB_ID": "1", "SLURM_MEM_PER_NODE": "4096"}, Allocation(4 * GIB - RESERVE)),
        ({"SLURM_JOB_ID": "1", "SLURM_MEM_PER_NODE": "0", "SLURM_CPUS_ON_NODE": "8"}, Allocation(None, 8)),
        (
            {"SLURM_JOB_ID": "1", "SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "8"},
            Allocation(8 * GIB - RESERVE, 8),
        ),
        ({"SLURM_JOB_ID": "1", "SLURM_MEM_PER_CPU": "1024"}, Allocation(GIB - RESERVE)),
        ({"SLURM_JOB_ID": "1", "SLURM_MEM_PER_NODE": "4G", "SLURM_CPUS_ON_NODE": "-1"}, Allocation()),
        ({"SLURM_JOB_ID": "1", "SLURM_MEM_PER_NODE": "100"}, Allocation(1 << 20)),
    ],
)
def test_the_share_of_a_job(variables: dict[str, str], expected: Allocation) -> None:
    assert allocation(variables) == expected
