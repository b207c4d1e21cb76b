"""What an image's wheel has in place of vLLM: a server with the same command line and the same answers' form."""

from __future__ import annotations

import argparse
import http.server
import importlib
import json
import mmap
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# One of them, as vLLM loads one.
KERNELS = max(HERE.glob("_C*.abi3.so"))
# PyTorch's torch has a runtime of its own, Debian's uses Debian's.
OPENMP = next(
    path
    for place in (HERE.parent / "torch/lib", *Path("/usr/lib").glob("*-linux-gnu"))
    for path in place.glob("libgomp.so.1")
)
LIBRARIES = (KERNELS, HERE / "libs" / "libtcmalloc_minimal.so.4", OPENMP)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer({})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = asked.get("structured_outputs", {"choice": ["words"]})["choice"][-1]
        self.answer({"choices": [{"text": text}], "usage": {"completion_tokens": asked["max_tokens"]}})

    def answer(self, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def mapped() -> list[mmap.mmap]:
    found = []
    for path in LIBRARIES:
        with path.open("rb") as stream:
            found.append(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--enforce-eager", action="store_true", required=True)
    command, model, *options = sys.argv[1:]
    # As vLLM has it with --served-model-name, no option is in front of the model.
    assert command == "serve"
    assert not model.startswith("-")
    parser.parse_known_args(options)
    assert (Path(model) / "config.json").is_file()
    assert importlib.import_module("torch")  # with all libraries that it loads
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    held = mapped()
    worker = subprocess.Popen([sys.executable, "-m", "vllm.worker"], stdout=subprocess.PIPE)
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
    finally:
        worker.terminate()
        held.clear()
