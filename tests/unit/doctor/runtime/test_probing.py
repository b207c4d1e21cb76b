"""What is asked of the running system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from cpuwheels.core.store import Store
from cpuwheels.doctor.runtime.probing import get_mempolicy, probe_system

DENY = """
import ctypes, struct, sys
BPF = [(0x20, 0, 0, 0), (0x15, 0, 1, {number}), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
program = b"".join(struct.pack("HBBI", *line) for line in BPF)
buffer = ctypes.create_string_buffer(program)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(len(BPF), ctypes.cast(buffer, ctypes.c_void_p)))) == 0
from cpuwheels.doctor.runtime.probing import get_mempolicy
print(get_mempolicy())
"""
"""A seccomp filter that answers one system call with EPERM, as container engines do, and then the question."""


@pytest.mark.skipif(platform.system() != "Linux" or platform.machine() != "x86_64", reason="x86-64's number")
def test_the_system_call_is_really_made():
    done = subprocess.run([sys.executable, "-c", DENY.format(number=239)], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("EPERM", "")


def test_the_answer_is_known_here():
    assert get_mempolicy() in {"", "EPERM", "ENOSYS", None}


def test_only_variables_without_paths_are_kept(tmp_path):
    environ = {"VLLM_CPU_KVCACHE_SPACE": "4", "HOME": "/home/me", "LD_PRELOAD": "/a/libgomp.so.1 /b/libtcmalloc.so"}
    found = probe_system(Store(tmp_path), environ)
    kept = {name: value for name, value in found.environ.items() if name.isupper()}
    assert kept == {"VLLM_CPU_KVCACHE_SPACE": "4", "LD_PRELOAD": "libgomp.so.1:libtcmalloc.so"}


def test_a_compiler_is_the_one_that_is_named(tmp_path):
    compiler = tmp_path / "mine"
    compiler.write_text("#!/bin/sh\necho mine 1.2\n")
    compiler.chmod(0o755)
    assert probe_system(None, {"CXX": str(compiler)}).compiler == "mine 1.2"
    assert probe_system(None, os.environ).kernel == platform.release()


def test_without_programs_there_is_neither_compiler_nor_lscpu(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = probe_system(None, {})
    assert found.compiler == ""
    assert found.lscpu is (platform.system() == "Darwin")
    assert found.total_memory > found.available_memory > 0
    assert Path("/dev/shm").exists() is (found.shared_memory is not None)
