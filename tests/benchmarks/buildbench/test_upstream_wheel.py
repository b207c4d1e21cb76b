"""A wheel with upstream's modules in place of ours: real libraries, compiled and loaded."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import zipfile
from typing import TYPE_CHECKING

from buildbench.upstream_wheel import write_upstream_wheel

import wheel_writer as ww
from cpuwheels.core.elf import read_elf

if TYPE_CHECKING:
    from pathlib import Path

NUMA = "libnuma-c2968dac.so.1.0.0"


def compiled(path: Path, source: str, *options: str | Path) -> Path:
    file = path.with_suffix(".c")
    file.write_text(source)
    subprocess.run(["cc", "-g", "-shared", "-fPIC", file, "-o", path, *options], check=True)
    return path


def test_the_modules_are_stripped_and_load_what_the_wheel_brings(tmp_path: Path) -> None:
    plain = compiled(tmp_path / "libnuma.so.1", "int nodes(void) { return 7; }", "-Wl,-soname,libnuma.so.1")
    brought = compiled(tmp_path / NUMA, "int nodes(void) { return 8; }", f"-Wl,-soname,{NUMA}")
    source = "int nodes(void); int asked(void) { return nodes(); }"
    module = compiled(tmp_path / "_C.so", source, plain, f"-Wl,-rpath,{tmp_path}")
    other = compiled(tmp_path / "spinloop.so", "int spin(void) { return 1; }")
    ours = ww.write_good(
        tmp_path / "dist",
        **{
            "vllm/_C.abi3.so": b"ours",
            "vllm/_C_AVX2.abi3.so": b"ours, which upstream does not have",
            f"vllm.libs/{NUMA}": brought.read_bytes(),
            "vllm.libs/libcpuwheels_dnnl-78b9db7e.so": b"ours alone",
        },
    )
    modules = {"_C": module, "spinloop": other}
    found = write_upstream_wheel(
        ours, modules, tmp_path / "upstream", work=tmp_path / "work", strip=shutil.which("strip")
    )

    assert found == tmp_path / "upstream" / ours.name
    assert not (tmp_path / "work").exists()
    with zipfile.ZipFile(ours) as before, zipfile.ZipFile(found) as after:
        changed = {"vllm/_C.abi3.so", f"{ww.INFO}/RECORD"}
        kept = set(before.namelist()) - {"vllm.libs/libcpuwheels_dnnl-78b9db7e.so"}
        assert set(after.namelist()) == kept  # and no module that ours does not have
        assert {name for name in kept if before.read(name) != after.read(name)} == changed
        after.extractall(tmp_path / "installed")
    installed = tmp_path / "installed/vllm/_C.abi3.so"
    with installed.open("rb") as stream:
        facts = read_elf(stream)
    assert facts.unstripped == ()
    assert NUMA in facts.needed
    assert facts.search_path == ("$ORIGIN/../vllm.libs",)
    assert ctypes.CDLL(str(installed)).asked() == 8
