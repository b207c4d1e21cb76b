"""Start an image's own command, ask it, and look what it has loaded. Runs in the image, in its own process namespace.

    python serve_inside.py REQUEST OUTPUT

REQUEST is a JSON file with ``command`` (entrypoint and arguments), ``health``, ``url``, ``choices``, ``log``, and
``patience`` (seconds for the ``start``, an ``answer`` and the ``end``). OUTPUT becomes a JSON object: how the start and
the end went, the answers, and the maps and the environment of all processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

MODEL = "tiny"
_TRIES = 1800
"""How often at most the health command is tried: emulated, it takes what the server needs."""


def post(url: str, body: dict[str, Any], timeout: float) -> Any:
    """Return the answer to a request."""
    data = json.dumps({"model": MODEL, "temperature": 0.0, **body}).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310  (loopback)
    with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
        return json.load(answer)


def ask(url: str, choices: list[str], timeout: float) -> dict[str, Any]:
    """Return a completion, and an answer that a grammar has to choose."""
    plain = post(f"{url}/v1/completions", {"prompt": "Hello", "max_tokens": 8, "ignore_eos": True}, timeout)
    # A model of random weights says neither by itself; a JSON schema would allow it blanks without end.
    choice = {"prompt": "Is it?", "max_tokens": 32, "structured_outputs": {"choice": choices}}
    chosen = post(f"{url}/v1/completions", choice, timeout)
    return {"tokens": plain["usage"]["completion_tokens"], "chosen": chosen["choices"][0]["text"]}


def wait(process: subprocess.Popen[bytes], health: list[str], patience: float) -> None:
    """Wait until the health command succeeds.

    Raises:
        RuntimeError: The server has ended, or takes too long.
    """
    end = time.monotonic() + patience
    while subprocess.run(health, capture_output=True, check=False).returncode != 0:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode} before it took requests")
        if time.monotonic() > end:
            raise RuntimeError(f"the server took no requests within {patience:g} seconds")
        time.sleep(patience / _TRIES)


def processes() -> dict[str, list[str]]:
    """Return of each process but this one what it has mapped, and its environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) not in {1, os.getpid()}:
            try:
                found[folder.name] = [(folder / name).read_text() for name in ("maps", "environ")]
            except OSError:
                continue
    return {pid: texts for pid, texts in found.items() if texts[0]}


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return what was found."""
    result: dict[str, Any] = {"user": os.getuid(), "failure": ""}
    began, patience = time.monotonic(), request["patience"]
    with Path(request["log"]).open("wb") as log:
        process = subprocess.Popen(request["command"], stdout=log, stderr=subprocess.STDOUT)
        try:
            wait(process, request["health"], patience["start"])
            result["started"] = round(time.monotonic() - began, 1)
            result |= ask(request["url"], request["choices"], patience["answer"])
            result |= {"processes": processes(), "first": str(process.pid)}
        except (RuntimeError, OSError) as error:
            result["failure"] = str(error)
        process.send_signal(signal.SIGTERM)
        try:
            result["status"] = process.wait(patience["end"])
        except subprocess.TimeoutExpired:
            process.kill()
            result["failure"] = result["failure"] or f"the server did not end within {patience['end']:g} seconds"
    caches = [Path.home() / ".cache", *Path(tempfile.gettempdir()).glob("torchinductor_*")]
    result["compiled"] = sum(1 for cache in caches for _ in cache.rglob("*.so"))
    return result


if __name__ == "__main__":
    wanted = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps(main(wanted)))
