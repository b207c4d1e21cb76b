"""Each mechanism that confines upstream's code, on this machine: what hostile code gains, and what still works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from confinement import PYTHON, SECRET, Confinement, World, pinned_bubblewrap, without, world
from cpuwheels.core.process import end_command_of, run
from cpuwheels.sandbox.confine import Confined, Sandbox
from cpuwheels.sandbox.detect import try_out
from cpuwheels.sandbox.landlock import landlock_version
from cpuwheels.sandbox.limits import Limits
from cpuwheels.sandbox.mechanism import Mechanism
from cpuwheels.sandbox.network import shared_network
from cpuwheels.sandbox.steps import serving as serving_step
from cpuwheels.sandbox.view import interpreter_places
from cpuwheels.verification.serving.server import ServerError, ServerRequest, serving
from cpuwheels.verification.serving.setting import RESOURCES
from layout import HELPERS, ROOT

KINDS = ["user namespace", "root", "landlock"]
LANDLOCK_LETS = {"chmod"}
"""Attacks that the lesser mechanism does not stop; it says so."""


@pytest.fixture(scope="session")
def bubblewrap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pinned_bubblewrap(tmp_path_factory.mktemp("bubblewrap"))


@pytest.fixture(params=KINDS)
def mechanism(request: pytest.FixtureRequest, bubblewrap: Path) -> Mechanism:
    if request.param == "landlock":
        found = Mechanism("landlock", landlock=landlock_version())
    else:
        found = Mechanism(request.param, program=bubblewrap)
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("only root can make the other namespaces without a user namespace")
    assert try_out(found) == ""
    return found


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "outside") as made:
        yield made


@pytest.fixture
def inside(mechanism: Mechanism, tmp_path: Path) -> Confinement:
    (tmp_path / "inside").mkdir()
    return Confinement(mechanism, tmp_path / "inside")


def attacks(outside: World) -> dict[str, list[str]]:
    home, pid = outside.base / "home", str(outside.victim.pid)
    lines = [
        ["read", home / ".aws/credentials"],
        ["read", home / ".ssh/id_ed25519"],
        ["listing", home],
        ["environs", SECRET],
        ["write", home / ".profile"],
        ["write", home / ".netrc"],
        ["write", outside.base / "store/entry"],
        ["remove", outside.base / "store/entry"],
        ["truncate", outside.base / "clone/config"],
        ["link", outside.base / "store/entry", "linked"],
        ["chmod", outside.base / "store/entry"],
        ["tcp", "127.0.0.1", outside.port],
        ["abstract", outside.abstract],
        ["unix", outside.docker],
        ["kill", pid],
        ["ptrace", pid],
        ["memory", pid],
        ["mount"],
        ["namespace"],
        ["limits", pid],
        ["privileges"],
    ]
    return {" ".join(map(str, [line[0], place])): list(map(str, line)) for place, line in enumerate(lines)}


def test_nothing_outside_can_be_read_changed_or_reached(inside: Confinement, outside: World) -> None:
    lets = LANDLOCK_LETS if inside.mechanism.kind == "landlock" else set()
    gained = {}
    for name, line in attacks(outside).items():
        if line[0] not in lets:
            said = inside.attack(*line)
            if not said.startswith("refused: "):
                gained[name] = said
    assert gained == {}
    assert outside.unharmed()


def test_unconfined_the_same_attacks_succeed(outside: World) -> None:
    """Else they would show nothing."""
    harmless = {"read", "listing", "tcp", "abstract", "unix", "environs", "write", "memory", "chmod"}
    for line in attacks(outside).values():
        if line[0] in harmless:
            assert without(line).startswith("gained: "), line


@pytest.mark.parametrize(
    "line",
    [
        ["dns", "localhost.example.com"],
        ["tcp", "169.254.169.254", "80"],
        ["tcp", "1.1.1.1", "53"],
        ["vsock"],
        ["keyring"],
    ],
    ids=lambda line: line[0] + line[-1],
)
def test_there_is_no_network_and_no_keyring(inside: Confinement, line: list[str]) -> None:
    started = time.monotonic()
    assert inside.attack(*line).startswith("refused: ")
    assert time.monotonic() - started < 20


def test_only_the_work_folder_can_be_written_and_it_can_be(inside: Confinement) -> None:
    assert inside.attack("write", inside.work / "result").startswith("gained: ")
    assert (inside.work / "result").read_text() == "changed"
    folders = "/ /usr /etc /dev /proc/sys/kernel /sys /home /var"
    script = f"for f in {folders}; do touch $f/x 2>/dev/null && echo $f; done; true"
    assert inside.run(["/bin/sh", "-c", script]).output == ""


def test_home_and_temporary_folders_are_its_own(inside: Confinement) -> None:
    script = 'echo "$HOME" "$TMPDIR"; ls -A "$HOME"; touch "$HOME/a" "$TMPDIR/b" && echo written; ls -A /tmp 2>&1'
    lines = inside.run(["/bin/sh", "-c", script]).output.splitlines()
    home, temporary = lines[0].split()
    assert lines[1] == "written"
    assert temporary == str(inside.work / "tmp")
    assert (inside.work / "tmp" / "b").is_file()
    if inside.mechanism.program:
        assert home == "/tmp/home"
        # Nothing but the home folder and, as far as they lie there, the ways to the work folder and to what is read.
        seen = [Path(inside.base), Path(sys.prefix), Path(sys.base_prefix), ROOT]
        assert set(lines[2:]) <= {"home", *(path.parts[2] for path in seen if path.is_relative_to("/tmp"))}
        assert not (Path("/tmp/home/a")).exists()
    else:
        assert "Permission denied" in lines[-1]


def test_of_the_real_home_folder_only_the_way_to_the_interpreter_is_visible(inside: Confinement) -> None:
    said, home = inside.attack("listing", Path.home()), Path.home()
    if said.startswith("gained: "):
        visible = {PYTHON.relative_to(home).parts[0]} if PYTHON.is_relative_to(home) else set()
        assert set(said.removeprefix("gained: ").split()) == visible


def test_open_files_of_the_parent_stay_its_own(inside: Confinement) -> None:
    with open("/etc/hostname", "rb") as held:  # noqa: PTH123
        os.set_inheritable(held.fileno(), True)
        assert inside.attack("descriptors").startswith("refused: ")


def test_a_readable_folder_is_readable_and_no_more(inside: Confinement, outside: World) -> None:
    store = outside.base / "store"
    assert SECRET in inside.attack("read", store / "entry", readable=[store])
    for what in ("write", "remove", "truncate"):
        assert inside.attack(what, store / "entry", readable=[store]).startswith("refused: ")
    assert outside.unharmed()


def test_names_that_are_no_text_work(inside: Confinement, outside: World) -> None:
    folder = outside.base / b"\xff".decode(errors="surrogateescape")
    folder.mkdir()
    (folder / "file").write_text("there")
    done = inside.run(["/bin/sh", "-c", 'cat "$(printf "$1/\\377/file")"', "sh", outside.base], folder)
    assert done.output == "there"


def test_limits_hold(inside: Confinement) -> None:
    done = inside.run(["/bin/sh", "-c", "ulimit -c; ulimit -n"], limits=Limits(open_files=99))
    assert done.output.split() == ["0", "99"]


def test_nothing_it_started_outlives_it(inside: Confinement) -> None:
    """Not even in a session of its own, which no signal to the group reaches."""
    marker = inside.work / "alive"
    code = (
        "import os, subprocess, sys\n"
        "body = 'import sys, time\\nwhile True: open(sys.argv[1], \"w\").close(); time.sleep(0.05)'\n"
        f"subprocess.Popen([sys.executable, '-c', body, {str(marker)!r}], start_new_session=True)\n"
        f"while not os.path.exists({str(marker)!r}): pass\n"
    )
    assert inside.run([PYTHON, "-c", code]).status == 0
    marker.unlink(missing_ok=True)
    time.sleep(0.3)
    assert not marker.exists()


def test_exit_statuses_come_through(inside: Confinement) -> None:
    assert inside.run(["/bin/sh", "-c", "exit 7"]).status == 7
    done = inside.run(["/bin/sh", "-c", "kill -KILL $$"])
    assert done.status in {-signal.SIGKILL & 0xFF, 128 + signal.SIGKILL}, "as Python and as a shell has it"


def test_ctrl_c_ends_everything(inside: Confinement, tmp_path: Path) -> None:
    """As `run` ends a command when this process is interrupted: a signal to its group."""
    script = "setsid sleep 987654 & echo begun; wait"
    confined = Sandbox(inside.mechanism).confine(inside.step(), ["/bin/sh", "-c", script], dict(os.environ), tmp_path)
    begun = threading.Event()

    def line(_: str) -> None:
        begun.set()

    waiting = threading.Thread(
        target=run,
        args=(confined.argv,),
        kwargs={"log": tmp_path / "log", "env": confined.env, "on_line": line, "check": False},
    )
    waiting.start()
    assert begun.wait(20)
    started = time.monotonic()
    end_command_of(waiting.ident or 0)
    waiting.join(20)
    assert not waiting.is_alive()
    assert time.monotonic() - started < 8
    time.sleep(0.2)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 987654" not in listed


def test_a_parent_that_is_killed_takes_it_along(inside: Confinement, tmp_path: Path) -> None:
    marker = inside.work / "alive"
    script = "while :; do : > alive; sleep 0.05; done"
    confined = Sandbox(inside.mechanism).confine(inside.step(), ["/bin/sh", "-c", script], dict(os.environ), tmp_path)
    code = (
        "import sys; from pathlib import Path; from cpuwheels.core.process import run\n"
        "run(sys.argv[2:], log=Path(sys.argv[1]), check=False)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "log", *map(str, confined.argv)],
        env=confined.env | {"PATH": os.environ["PATH"]},
    )
    while not marker.exists():
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    for _ in range(100):
        marker.unlink(missing_ok=True)
        time.sleep(0.2)
        if not marker.exists():
            return
    pytest.fail("it lives on")


def test_a_home_folder_that_holds_the_stores_is_hidden_but_for_them(inside: Confinement, outside: World) -> None:
    store = outside.base / "home" / ".cache" / "store"
    store.mkdir(parents=True)
    (store / "entry").write_text("there")
    assert inside.attack("read", store / "entry", readable=[store]) == "gained: there"
    assert inside.attack("read", outside.base / "home/.netrc", readable=[store]).startswith("refused: ")


def test_what_bubblewrap_complains_of_is_the_reason(tmp_path: Path) -> None:
    """A container may hide parts of /proc, and then the kernel lets nobody mount another one."""
    false = tmp_path / "bwrap"
    false.write_text("#!/bin/sh\necho 'bwrap: Can not mount proc: Operation not permitted' >&2\nexit 1\n")
    false.chmod(0o755)
    assert "mount proc" in try_out(Mechanism("user namespace", program=false))


SEPARATES = pytest.mark.parametrize("mechanism", KINDS[:2], indirect=True)
"""Landlock separates no networks: servers run unconfined there, and a note tells."""


def server_request(inside: Confinement, network: Path, behaviour: str, **changes: float) -> ServerRequest:
    """Return a request of a stand-in's server in a sandbox."""
    base = inside.base
    temporary, work = base / "short", base / "serving"
    for folder in (temporary, work / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
    if not (work / "bin" / "python").exists():
        (work / "bin" / "python").symlink_to(PYTHON)
        (work / "bin" / "vllm").write_text((HELPERS / "fake_vllm.py").read_text())
    python = work / "bin" / "python"
    readable = (*interpreter_places(PYTHON), *interpreter_places(Path(sys.executable)), RESOURCES)
    step = serving_step(python, readable, work, temporary, network)

    def confine(argv: Sequence[str | Path], env: Mapping[str, str]) -> Confined:
        return Sandbox(inside.mechanism).confine(step, argv, env, base / "plans")

    env = {"PATH": os.defpath, "CHILD": str(work / "child"), "TMPDIR": str(temporary), "SHARED": "/dev/shm/left"}
    request = ServerRequest(python, work / behaviour, "bfloat16", 0.25, env, base / "log", 60, confine=confine)
    return replace(request, **changes)  # type: ignore[arg-type]


@pytest.fixture
def network(inside: Confinement) -> Iterator[Path]:
    (inside.base / "network").mkdir()
    with shared_network(Sandbox(inside.mechanism), inside.base / "network", inside.base / "plans") as made:
        yield made


@SEPARATES
def test_a_server_is_reached_by_what_shares_its_network_and_by_nothing_else(inside: Confinement, network: Path) -> None:
    request = server_request(inside, network, "good")
    with serving(request) as server:
        assert "[Errno 111]" in unreached(server.url)
        port = server.url.split(":")[2].split("/")[0]
        script = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/health').status)"
        asked = request.confine([PYTHON, "-c", script], request.env)
        assert run(asked.argv, log=inside.base / "asked", env=asked.env).output == "200"
        processes = server.processes()
        assert processes
        assert server.end() == 0
    assert "arguments: serve" in request.log.read_text()


def unreached(url: str) -> str:
    """Return why a server cannot be reached from outside."""
    try:
        urllib.request.urlopen(url, timeout=5)
    except urllib.error.URLError as error:
        return str(error.reason)
    return "reached"


@SEPARATES
@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("ends badly", "on SIGTERM, the server ended with status 7"),
        ("stays", "the server did not end within 1 s of SIGTERM"),
        ("leaves", "the server left 1 processes behind"),
        ("leaves memory", "the server left shared memory behind: /dev/shm/left"),
    ],
)
def test_what_a_server_leaves_in_its_sandbox_is_a_fault(
    inside: Confinement, network: Path, behaviour: str, words: str
) -> None:
    with (
        serving(server_request(inside, network, behaviour, ending=1)) as server,
        pytest.raises(ServerError, match=words),
    ):
        server.end()


@SEPARATES
def test_sockets_that_a_server_leaves_in_its_sandbox_are_counted(inside: Confinement, network: Path) -> None:
    with serving(server_request(inside, network, "leaves a socket")) as server:
        assert server.end() == 1


@SEPARATES
def test_a_server_that_dies_in_its_sandbox_says_so(inside: Confinement, network: Path) -> None:
    with (
        pytest.raises(ServerError, match="did not start: its process ended with status 3"),
        serving(server_request(inside, network, "dies")),
    ):
        pytest.fail("it is not up")


@SEPARATES
def test_a_shared_network_has_nothing_else_in_it(inside: Confinement, network: Path, outside: World) -> None:
    request = server_request(inside, network, "good")
    code = (
        "import socket, sys\n"
        "for address in (('1.1.1.1', 53), ('127.0.0.1', int(sys.argv[1]))):\n"
        "    try:\n        socket.create_connection(address, 5)\n        print('gained')\n"
        "    except OSError as error:\n        print('refused')\n"
    )
    asked = request.confine([PYTHON, "-c", code, str(outside.port)], request.env)
    assert run(asked.argv, log=inside.base / "asked", env=asked.env).output == "refused\nrefused"
    for path in (outside.base / "home" / ".netrc", Path("/root"), inside.base / "log"):
        read = request.confine(["/bin/cat", path], request.env)
        assert run(read.argv, log=inside.base / "read", env=read.env, check=False).returncode == 1


@SEPARATES
@pytest.mark.parametrize(
    ("network", "words"),
    [("/proc/self/ns/net", "the network is that of this machine"), ("/proc/0/ns/net", "the network is gone")],
)
def test_no_other_network_is_joined(inside: Confinement, network: str, words: str) -> None:
    step = replace(inside.step(), network=Path(network))
    confined = Sandbox(inside.mechanism).confine(
        step, ["/bin/echo", "ran"], {"PATH": os.defpath}, inside.base / "plans"
    )
    done = run(confined.argv, log=inside.base / "log", env=confined.env, check=False)
    assert done.returncode == 126
    assert words in done.output
    assert "ran" not in done.output
