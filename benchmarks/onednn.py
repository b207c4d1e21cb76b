"""The time of oneDNN's calls in two wheels: the first of a shape, which writes its machine code, and later ones.

    python benchmarks/onednn.py --python PYTHON OLD.whl NEW.whl [--library _C] [--rounds 7] [--json FILE]

PYTHON is an interpreter with the torch of both wheels. Each round runs both wheels, in a process of their own and on
one thread, first the one and then the other. Times are medians over the rounds; the ratio is new over old.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import zipfile
from pathlib import Path

SHAPES = [(1, 4096, 4096), (16, 4096, 4096), (128, 1024, 4096), (33, 333, 777), (7, 64, 64)]
"""Rows, columns and depth: decoding and prefill of a Llama layer, odd sizes, and one so small that calls are most."""

DTYPES = ("float32", "bfloat16")
CALLS = 30

_MEASURE = """
import json, sys, time, torch
library, shapes, dtypes, calls = sys.argv[1], *map(json.loads, sys.argv[2:5])
torch.set_num_threads(1)
torch.ops.load_library(library)
ops = getattr(torch.ops, library.rpartition("/")[2].partition(".")[0])
found = {}
for dtype in dtypes:
    for rows, columns, depth in shapes:
        a = torch.randn(rows, depth, dtype=getattr(torch, dtype))
        b = torch.randn(columns, depth, dtype=getattr(torch, dtype)).t()
        out = torch.empty(rows, columns, dtype=a.dtype)
        times = []
        began = time.perf_counter()
        handler = torch.tensor(ops.create_onednn_mm_handler(b, 16))
        for _ in range(calls + 1):
            ops.onednn_mm(out, a, None, handler)
            times.append(time.perf_counter() - began)
            began = time.perf_counter()
        ops.release_dnnl_matmul_handler(int(handler))
        found[f"{dtype} {rows}x{columns}x{depth}"] = [times[0], sorted(times[1:])[calls // 2]]
print(json.dumps(found))
"""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs=2, type=Path, metavar="WHEEL")
    parser.add_argument("--python", required=True, help="interpreter with torch")
    parser.add_argument("--library", default="_C", help="extension module (default: _C)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the times here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, str(number)) for number in range(2)]
        for wheel, folder in zip(options.wheels, folders, strict=True):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
        rounds = [
            [measure(options.python, folder / "vllm" / f"{options.library}.abi3.so") for folder in folders]
            for _ in range(options.rounds)
        ]
    rows = {}
    for case in rounds[0][0]:
        for index, what in enumerate(("first call", "later calls")):
            old, new = (statistics.median(both[side][case][index] for both in rounds) for side in range(2))
            rows[f"{case}, {what}"] = {"old": old, "new": new, "ratio": new / old}
            print(f"{case:26s} {what:11s} {old * 1000:9.3f} ms {new * 1000:9.3f} ms  {new / old:5.2f}")
    for what in ("first call", "later calls"):
        ratios = [row["ratio"] for name, row in rows.items() if name.endswith(what)]
        print(f"{what}: {statistics.geometric_mean(ratios):.3f} (geometric mean of {len(ratios)} ratios)")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure(python: str, library: Path) -> dict[str, tuple[float, float]]:
    """Return seconds of the first call of each shape and of a later one (the median)."""
    arguments = [json.dumps(value) for value in (SHAPES, DTYPES, CALLS)]
    done = subprocess.run([python, "-c", _MEASURE, library, *arguments], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
