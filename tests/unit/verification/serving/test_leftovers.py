"""What this process holds, as a server would, and what of it stays."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import psutil
import pytest

from cpuwheels.verification.serving.leftovers import held_files, left_files


def test_a_socket_with_a_name_is_held_until_it_is_removed(tmp_path: Path) -> None:
    name = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(name))
        held = held_files([psutil.Process()])
        assert name in held
    assert left_files(held & {name}) == ([], 1)
    name.unlink()
    assert left_files(held & {name}) == ([], 0)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="shared memory has no names here")
def test_shared_memory_is_held_until_it_is_removed() -> None:
    name = Path(f"/dev/shm/cpuwheels-test-{os.getpid()}")
    try:
        with name.open("w+b") as stream:
            stream.write(b"x")
            held = held_files([psutil.Process()])
        assert name in held
        assert left_files(held & {name}) == ([str(name)], 0)
    finally:
        name.unlink()
    assert left_files(held & {name}) == ([], 0)


def test_a_process_that_is_gone_holds_nothing() -> None:
    gone = psutil.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert held_files([gone]) == set()


def test_memory_that_is_mapped_only_is_seen_in_the_maps(tmp_path: Path) -> None:
    process = psutil.Process()
    (tmp_path / str(process.pid) / "fd").mkdir(parents=True)
    lines = "7f0-7f1 rw-s 00 00:18 7   /dev/shm/psm_one\n7f2-7f3 rw-s 00 00:18 8   /dev/shm/two (deleted)\n"
    (tmp_path / str(process.pid) / "maps").write_text(lines)
    held = held_files([process], tmp_path)
    assert {Path("/dev/shm/psm_one"), Path("/dev/shm/two")} <= held
