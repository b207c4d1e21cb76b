"""Workers on other machines, with a program in place of ssh that runs what it is given on this one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cpuwheels.core.errors import FarmError
from cpuwheels.farm.security import FILES, PRIVATE, make_certificates
from cpuwheels.farm.ssh import COMMAND, Host, read_hosts, workers_on

SSH = """#!/bin/sh
echo "$@" >> "$FOLDER/arguments"
while [ "$1" != -- ]; do shift; done
[ "$2" != nowhere ] || { echo "ssh: no such host" >&2; exit 255; }
shift 2
exec sh -c "$*"
"""
WORKER = """#!/bin/sh
echo "$@" >> "$FOLDER/begun"
for keys; do :; done
cat "$keys"/* > "$FOLDER/received-$1"
[ "$1" != silent ] || exit 3
echo "tls://127.0.0.1:1"
[ "$1" != once ] || exit 0
echo $$ > "$FOLDER/process-$1"
exec sleep 100
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("ssh", SSH), ("worker", WORKER)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    make_certificates(tmp_path / "keys")
    return tmp_path


def host(folder: Path, name: str) -> Host:
    return Host(name, (str(folder / "worker"), name))


def run(folder: Path, hosts: list[Host], until: Callable[[list[str]], bool]) -> list[str]:
    """Run workers until something is so, and return what was told."""
    told: list[str] = []

    async def main() -> None:
        async with workers_on(hosts, "tls://127.0.0.1:9", folder / "keys", told.append):
            end = time.monotonic() + 30
            while not until(told) and time.monotonic() < end:
                await asyncio.sleep(0.02)
            assert until(told), told

    asyncio.run(main())
    return told


def test_a_worker_on_each_host_with_the_certificates_and_ended_with_the_connection(folder: Path) -> None:
    names = ("one", "two")
    told = run(
        folder,
        [host(folder, name) for name in names],
        lambda _: all((folder / f"process-{name}").exists() for name in names),
    )
    assert sorted(told) == [f"{name}: tls://127.0.0.1:1" for name in names]
    sent = b"".join((folder / "keys" / name).read_bytes() for name in sorted(FILES))
    for name in names:
        assert (folder / f"received-{name}").read_bytes() == sent
        assert not psutil.pid_exists(int((folder / f"process-{name}").read_text()))
    begun = sorted((folder / "begun").read_text().splitlines())
    assert [line.rpartition(" ")[0] for line in begun] == [
        f"{name} farm worker --farm tls://127.0.0.1:9 --name {name} --farm-keys" for name in names
    ]
    assert not list((folder / "temporary").iterdir()), "the certificates are removed"
    secret = (folder / "keys" / PRIVATE).read_text().splitlines()[1]
    assert secret not in (folder / "arguments").read_text(), "nor seen in a list of processes"


def test_a_worker_that_ends_is_started_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuwheels.farm.ssh.PAUSE_SECONDS", 0.05)
    told = run(folder, [host(folder, "once")], lambda told: told.count("once: tls://127.0.0.1:1") == 2)
    assert told[:3] == [
        "once: tls://127.0.0.1:1",
        "once: the worker ended with status 0; it is started again",
        "once: tls://127.0.0.1:1",
    ]


@pytest.mark.parametrize(
    ("name", "says"), [("nowhere", "ssh ended with status 255"), ("silent", "ssh ended with status 3")]
)
def test_a_worker_that_does_not_start_ends_the_others(folder: Path, name: str, says: str) -> None:
    with pytest.raises(FarmError, match=f"no worker starts on {name}: {says}") as raised:
        run(folder, [host(folder, "one"), host(folder, name)], lambda _: True)
    assert raised.value.where == name
    assert ("no such host" in raised.value.output) == (name == "nowhere")
    process = folder / "process-one"
    assert not process.exists() or not psutil.pid_exists(int(process.read_text()))


def test_a_worker_that_never_reaches_the_scheduler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuwheels.farm.ssh.START_SECONDS", 0.5)
    with pytest.raises(FarmError, match="no worker has started") as raised:
        run(folder, [Host("mute", ("sh", "-c", "exec sleep 100"))], lambda _: True)
    assert raised.value.where == "mute"


def test_the_list(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(
        "# ours\n\nbuilder-1\nuser@10.0.0.2  /opt/venv/bin/cpuwheels --cache '/big disk'  # the large one\n"
    )
    assert read_hosts(path) == [
        Host("builder-1", COMMAND),
        Host("user@10.0.0.2", ("/opt/venv/bin/cpuwheels", "--cache", "/big disk")),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it names no host"),
        ("# none\n", "it names no host"),
        ("a\nb\na\n", "line 3: 'a' is there twice"),
        ("a\n-oProxyCommand=x\n", "line 2: '-oProxyCommand=x' is no host"),
        ("a 'b\n", "line 1 cannot be read"),
    ],
)
def test_a_list_that_means_nothing(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(FarmError, match=says):
        read_hosts(path)
