"""Records of memgate's ledger, made up for tests."""

from __future__ import annotations

from cpuwheels.kernels.memory.ledger import JobRecord


def job(output: str, start: float, wall: float, *, lane: int = 0, peak: int = 100, **more: object) -> JobRecord:
    values = {
        "output": output,
        "start": 1000.0 + start,
        "wall": wall,
        "user": wall * 0.9,
        "system": wall * 0.1,
        "peak_bytes": peak,
        "lane": lane,
        "status": 0,
        **more,
    }
    return JobRecord.model_validate(values)


RECORDS = [
    job("CMakeFiles/_C.dir/csrc/cpu/b.cpp.o", 4, 6, lane=1, peak=300),
    job("CMakeFiles/_C.dir/csrc/cpu/a.cpp.o", 0, 10, peak=200, tree_bytes=250),
    job("_deps/onednn-build/src/cpu/CMakeFiles/dnnl_cpu.dir/rnn/ref.cpp.o", 0, 4, lane=1),
    job("_C.abi3.so", 10, 2, peak=50),
]
