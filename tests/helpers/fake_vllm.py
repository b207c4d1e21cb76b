"""Stands for ``vllm serve``: takes requests on the port it is given, and does as the model's folder is called."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main() -> int:
    arguments = sys.argv[1:]
    assert arguments[0] == "serve"
    behaviour, port = Path(arguments[1]).name, int(arguments[arguments.index("--port") + 1])
    print("arguments:", *arguments, flush=True)
    if behaviour == "dies":
        print("no such model", flush=True)
        return 3
    if behaviour == "hangs":
        time.sleep(60)
    # Like a process that has a title, it cannot be found by its environment.
    child = subprocess.Popen(["sleep", "60"], start_new_session=behaviour == "leaves", env={"PATH": os.environ["PATH"]})
    Path(os.environ["CHILD"]).write_text(str(child.pid))
    if behaviour == "leaves a socket":
        named = socket.socket(socket.AF_UNIX)
        named.bind(f"{os.environ['CHILD']}.socket")
    if behaviour == "leaves memory":
        shared = Path(os.environ["SHARED"]).open("wb")  # noqa: SIM115  (held until this process ends)
        shared.write(b"x")
    server = HTTPServer(("127.0.0.1", port), Handler)

    def end(*_: object) -> None:
        if behaviour != "leaves":
            child.kill()
            child.wait()
        os._exit(7 if behaviour == "ends badly" else 0)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "stays" else end)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
