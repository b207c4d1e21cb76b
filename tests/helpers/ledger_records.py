"""Records of memgate's ledger, made up for tests of the report."""

from __future__ import annotations


def job(output: str, start: float, wall: float, *, lane: int = 0, peak: int = 100, **more: object) -> dict[str, object]:
    return {
        "output": output, "start": 1000.0 + start, "wall": wall, "user": wall * 0.9, "system": wall * 0.1,
        "peak_bytes": peak, "tree_bytes": 0, "lane": lane, "attempt": 1, "status": 0, **more,
    }  # fmt: skip


RECORDS = [
    job("CMakeFiles/_C.dir/csrc/cpu/b.cpp.o", 4, 6, lane=1, peak=300),
    job("CMakeFiles/_C.dir/csrc/cpu/a.cpp.o", 0, 10, peak=200, tree_bytes=250),
    job("_deps/onednn-build/src/cpu/CMakeFiles/dnnl_cpu.dir/rnn/ref.cpp.o", 0, 4, lane=1),
    job("_C.abi3.so", 10, 2, peak=50),
]
