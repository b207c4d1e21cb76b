"""Attacks on what was fetched before, and several processes at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cpuwheels.core.digests import entry_digest
from cpuwheels.core.errors import DownloadError
from cpuwheels.core.store import MANIFEST, Store
from cpuwheels.fetch.download import fetch
from loopback import DEAD, Answer, Server
from pinned_file import GOOD, SHA256, pinned
from raw_server import RawServer, drip, head

PROGRAM = """
import sys
from pathlib import Path
from cpuwheels.core.store import Store
from pinned_file import pinned
from cpuwheels.fetch.download import fetch
print(fetch(pinned(sys.argv[2], file_name=sys.argv[3]), Store(Path(sys.argv[1]))))
"""


def start(cache: Store, url: str, name: str) -> subprocess.Popen[str]:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PROGRAM, str(cache.root), url, name]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)


def poison(path: Path, content: bytes) -> None:
    """Put other bytes into an entry, with a manifest that agrees."""
    path.unlink()
    path.write_bytes(content)
    manifest = json.loads((path.parent / MANIFEST).read_text())
    manifest["files"][path.name] = entry_digest(path)
    (path.parent / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.usefixtures("untouched")
def test_80_a_poisoned_entry_is_fetched_again(server: Server, cache: Store) -> None:
    url = server.serve("/f", Answer(GOOD))
    poison(fetch(pinned(url), cache), b"evil")
    assert fetch(pinned(url), cache).read_bytes() == GOOD
    assert server.asked == ["/f", "/f"]


@pytest.mark.usefixtures("untouched")
def test_81_a_poisoned_entry_of_another_name_is_made_again(server: Server, cache: Store) -> None:
    url = server.serve("/f", Answer(GOOD))
    fetch(pinned(url), cache)
    second = fetch(pinned(url, file_name="g"), cache)
    poison(second, b"evil")
    assert fetch(pinned(url, file_name="g"), cache).read_bytes() == GOOD
    assert fetch(pinned(url), cache).read_bytes() == GOOD
    assert server.asked == ["/f"]


def test_82_a_poisoned_entry_without_a_network_is_not_used(server: Server, cache: Store) -> None:
    poison(fetch(pinned(server.serve("/f", Answer(GOOD))), cache), b"evil")
    with pytest.raises(DownloadError):
        fetch(pinned(f"{DEAD}/f"), cache)


@pytest.mark.usefixtures("untouched")
def test_83_an_entry_that_became_a_link(server: Server, cache: Store, home: Path) -> None:
    url = server.serve("/f", Answer(GOOD))
    path = fetch(pinned(url), cache)
    other = home / "store" / "downloads" / path.parent.name / "f2"
    other.write_bytes(GOOD)
    path.unlink()
    path.symlink_to(other.name)
    manifest = json.loads((path.parent / MANIFEST).read_text())
    manifest["files"] = {name: entry_digest(path.parent / name) for name in ("f", "f2")}
    (path.parent / MANIFEST).write_text(json.dumps(manifest))
    again = fetch(pinned(url), cache)
    assert again.read_bytes() == GOOD
    assert not again.is_symlink()


@pytest.mark.usefixtures("untouched")
def test_84_a_damaged_entry_is_fetched_again(server: Server, cache: Store) -> None:
    url = server.serve("/f", Answer(GOOD))
    fetch(pinned(url), cache).write_bytes(b"rot")
    assert fetch(pinned(url), cache).read_bytes() == GOOD


@pytest.mark.parametrize(
    "names", [pytest.param(("f", "f"), id="85-one-name"), pytest.param(("f", "g"), id="86-two-names")]
)
@pytest.mark.usefixtures("untouched")
def test_two_at_once(server: Server, cache: Store, names: tuple[str, str]) -> None:
    url = server.serve("/f", Answer(GOOD))
    running = [start(cache, url, name) for name in names * 2]
    for process, name in zip(running, names * 2, strict=True):
        path = Path(process.communicate(timeout=120)[0].strip())
        assert process.returncode == 0
        assert (path.name, path.read_bytes()) == (name, GOOD)
    assert server.asked == ["/f"]


@pytest.mark.usefixtures("untouched")
def test_87_killed_while_bytes_come(cache: Store, server: Server) -> None:
    def answer(_path: str, send: object) -> None:
        send(head(f"Content-Length: {len(GOOD)}") + GOOD[:5000])  # type: ignore[operator]
        drip(send)  # type: ignore[arg-type]

    with RawServer(answer) as slow:
        process = start(cache, slow.url("/f"), "f")
        parts = cache.root / "downloads"
        until = time.monotonic() + 60
        while not any(part.stat().st_size for part in parts.glob(".new-*/.part-*/part")) and time.monotonic() < until:
            time.sleep(0.05)
        assert list(parts.glob(".new-*/.part-*/part"))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert list(parts.glob("[!.]*")) == []
    assert fetch(pinned(server.serve("/f", Answer(GOOD))), cache).read_bytes() == GOOD
    assert [entry.name for entry in parts.iterdir()] == [SHA256[:24]]


@pytest.mark.usefixtures("untouched")
def test_88_a_name_that_somebody_else_gave_stays_theirs(server: Server, cache: Store) -> None:
    url = server.serve("/f", Answer(GOOD))
    first = fetch(pinned(url, file_name="vllm-9.9.9.whl"), cache)
    second = fetch(pinned(url, file_name="vllm-0.32.0.whl"), cache)
    assert (first.name, second.name) == ("vllm-9.9.9.whl", "vllm-0.32.0.whl")
    assert fetch(pinned(f"{DEAD}/x", file_name="vllm-0.32.0.whl"), cache) == second
