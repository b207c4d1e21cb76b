"""A machine that is recorded is read back as it was, and says nothing of users and containers."""

from __future__ import annotations

import pytest

from cpuwheels.core.errors import UsageError
from cpuwheels.doctor.runtime.probing import probe_system
from cpuwheels.doctor.runtime.reading import read_machine
from cpuwheels.doctor.runtime.recording import read_record, record, write_record
from runtime_cases import MACHINES, NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_record_of_a_recorded_machine_is_the_same_machine(name, tmp_path):
    first = read_record(MACHINES / f"{name}.txt")
    root = tmp_path / "root"
    for part in (MACHINES / f"{name}.txt").read_text().split("==> ")[1:]:
        file, _, content = part.partition(" <==\n")
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(content)
    write_record(tmp_path / "again" / "copy.txt", record(first.probe, root))
    assert unnamed(read_record(tmp_path / "again" / "copy.txt")) == unnamed(first)


def unnamed(found):
    """Return a machine without the name of its control group, which a record replaces."""
    limit = found.limit.model_copy(update={"file": ""}) if found.limit else None
    return found.model_copy(update={"limit": limit})


def test_this_machine_is_recorded_as_it_is_read(tmp_path):
    probe = probe_system(None)
    write_record(tmp_path / "here.txt", record(probe))
    back, now = read_record(tmp_path / "here.txt"), read_machine(probe)
    assert (back.probe, back.cpus, back.announced, back.quota) == (now.probe, now.cpus, now.announced, now.quota)
    assert [(node.id, node.total) for node in back.nodes] == [(node.id, node.total) for node in now.nodes]


def test_names_of_control_groups_and_paths_are_left_out(tmp_path):
    root = tmp_path
    files = {
        "proc/self/cgroup": "0::/user.slice/secret-container\n",
        "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/user.slice/secret-container/memory.max": "4294967296\n",
        "sys/fs/cgroup/user.slice/secret-container/cpu.max": "150000 100000\n",
        "proc/self/status": "Name:\tsecret\nCpus_allowed_list:\t0\n",
        "sys/devices/system/cpu/online": "0\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    probe = probe_system(None, {"LD_PRELOAD": "/home/secret/libgomp.so.1", "VLLM_CACHE_ROOT": "/secret"})
    text = record(probe, root)
    assert "secret" not in text
    write_record(root / "x.txt", text)
    found = read_record(root / "x.txt")
    assert (found.limit.bytes, found.quota, found.cgroup) == (4 << 30, 1.5, 2)
    assert found.probe.environ == {"LD_PRELOAD": "libgomp.so.1"}


@pytest.mark.parametrize(
    "text", ["", "nothing", "==> probe.json <==\n{}\n", "==> probe.json <==\n[]\n", "==> probe.json <==\n{\n"]
)
def test_what_is_no_record_is_refused(tmp_path, text):
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(UsageError, match="is no recorded machine"):
        read_record(tmp_path / "x.txt")


@pytest.mark.parametrize("name", ["../outside", "/etc/outside"])
def test_a_record_writes_nowhere_else(tmp_path, name):
    whole = (MACHINES / "m1.txt").read_text()
    (tmp_path / "x.txt").write_text(f"{whole}==> {name} <==\nx\n")
    with pytest.raises(UsageError, match="is no recorded machine"):
        read_record(tmp_path / "x.txt")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_record(tmp_path / "x.txt")
