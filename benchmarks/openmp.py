"""The time of a short parallel region with torch's libgomp and with Intel's libiomp5, alone and next to a second pool.

    python benchmarks/openmp.py --python PYTHON --libiomp5 FILE [--threads 2] [--rounds 5] [--json FILE]

PYTHON is an interpreter with torch. Each process adds two tensors of 65,536 numbers again and again, which torch gives
to two threads, with a pause before each addition. A second pool is that of another thread of the process, which has
made one addition and waits since. Times are the shortest mean of 20 additions in any round: what else runs on the
machine only adds time. Threads are bound, and wait, as vLLM sets it for each runtime. What it means for a server is
measured with `nox -s serve-bench` (docs/performance.md).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path

PAUSES = (0, 10, 50)
"""Microseconds before each addition."""

_FIND = "import pathlib, torch; print(next(pathlib.Path(torch.__file__).parent.glob('lib/libgomp*.so*')))"
_MEASURE = """
import json, sys, threading, time, torch
threads, pools, pauses = map(json.loads, sys.argv[1:])
torch.set_num_threads(threads)
a, b = torch.randn(2, 65536)
done, end = threading.Event(), threading.Event()

def other():
    c = torch.randn(65536)
    torch.add(c, c, out=c)
    done.set()
    end.wait()

if pools == 2:
    threading.Thread(target=other).start()
    done.wait()

def mean(pause):
    total = 0.0
    for _ in range(20):
        until = time.perf_counter() + pause * 1e-6
        while time.perf_counter() < until:
            pass
        began = time.perf_counter()
        torch.add(a, b, out=a)
        total += time.perf_counter() - began
    return total / 20

found = []
for pause in pauses:
    began, least = time.perf_counter(), mean(pause)
    while time.perf_counter() - began < 0.5:
        least = min(least, mean(pause))
    found.append(least * 1e6)
end.set()
print(json.dumps(found))
"""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="interpreter with torch")
    parser.add_argument("--libiomp5", required=True, type=Path, help="libiomp5.so of intel-openmp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the times here")
    options = parser.parse_args()
    libgomp = subprocess.run(
        [options.python, "-c", _FIND], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    cpus = [str(cpu) for cpu in range(options.threads)]
    settings = {
        "libgomp": {"LD_PRELOAD": libgomp, "GOMP_CPU_AFFINITY": " ".join(cpus)},
        "libiomp5": {
            "LD_PRELOAD": str(options.libiomp5.resolve()),
            "KMP_AFFINITY": f"granularity=fine,explicit,proclist=[{','.join(cpus)}]",
            "KMP_BLOCKTIME": "5",
            "KMP_TPAUSE": "0",
        },
    }
    found: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for runtime, env in settings.items():
            for pools in (1, 2):
                times = measure(options.python, options.threads, pools, env)
                name = f"{runtime}, pools: {pools}"
                found[name] = [min(pair) for pair in zip(times, found.get(name, times), strict=True)]
    print(f"{'':20}", *(f"pause {pause} µs".rjust(12) for pause in PAUSES))
    for name, times in found.items():
        print(f"{name:20}", *(f"{time:9.1f} µs" for time in times))
    if options.json:
        options.json.write_text(
            json.dumps({"threads": options.threads, "pauses": PAUSES, "microseconds": found}) + "\n"
        )


def measure(python: str, threads: int, pools: int, env: dict[str, str]) -> list[float]:
    """Return the microseconds of an addition after each pause, in a process of its own."""
    command = [python, "-W", "ignore", "-c", _MEASURE, str(threads), str(pools), json.dumps(PAUSES)]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": str(threads), **env},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    times: list[float] = json.loads(done.stdout)
    return times


if __name__ == "__main__":
    main()
