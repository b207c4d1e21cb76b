from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from cpuwheels.verification.serving import server as servers
from cpuwheels.verification.serving.server import ServerError, ServerRequest, serving
from layout import HELPERS


@pytest.fixture
def request_(tmp_path: Path) -> ServerRequest:
    """A request of a server that does what the model's folder is called."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "bin" / "vllm").write_text((HELPERS / "fake_vllm.py").read_text())
    env = {"PATH": os.environ["PATH"], "CHILD": str(tmp_path / "child")}
    return ServerRequest(tmp_path / "bin" / "python", tmp_path / "good", "bfloat16", 0.25, env, tmp_path / "log", 20)


def child(request: ServerRequest) -> int:
    return int(Path(request.env["CHILD"]).read_text())


def gone(pid: int) -> bool:
    """Return whether a process has ended, soon if not yet; whoever inherited it may not have asked after it."""
    for _ in range(50):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.1)
    return False


def like(request: ServerRequest, model: str, **changes: float) -> ServerRequest:
    return replace(request, model=request.model.with_name(model), **changes)  # type: ignore[arg-type]


def test_it_is_up_inside_the_block_and_gone_after_it(request_: ServerRequest) -> None:
    with serving(request_) as server:
        health = server.url.replace("/v1", "/health")
        assert httpx.get(health, trust_env=False).is_success
        assert server.started > 0
        server.end()
    with pytest.raises(httpx.ConnectError):
        httpx.get(health, trust_env=False)
    assert gone(child(request_))
    assert "--dtype bfloat16" in request_.log.read_text()
    assert "--gpu-memory-utilization 0.250000" in request_.log.read_text()
    assert "--host 127.0.0.1" in request_.log.read_text()


def test_one_that_dies_says_so_at_once(request_: ServerRequest) -> None:
    with (
        pytest.raises(ServerError, match="did not start: its process ended with status 3"),
        serving(like(request_, "dies")),
    ):
        pytest.fail("it is not up")
    assert "no such model" in request_.log.read_text()


def test_one_that_takes_no_requests_is_ended(request_: ServerRequest) -> None:
    began = time.monotonic()
    with (
        pytest.raises(ServerError, match=r"takes no requests after 0\.5 s"),
        serving(like(request_, "hangs", patience=0.5)),
    ):
        pytest.fail("it is not up")
    assert time.monotonic() - began < 15


def test_another_status_than_0_is_a_fault(request_: ServerRequest) -> None:
    with serving(like(request_, "ends badly")) as server, pytest.raises(ServerError, match="ended with status 7"):
        server.end()


def test_one_that_does_not_end_is_killed(request_: ServerRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuwheels.core.process._GRACE_SECONDS", 1)
    with (
        serving(like(request_, "stays", ending=1)) as server,
        pytest.raises(ServerError, match="did not end within 1 s"),
    ):
        server.end()
    assert gone(child(request_))


def test_processes_left_behind_are_a_fault(request_: ServerRequest) -> None:
    with (
        serving(like(request_, "leaves", ending=1)) as server,
        pytest.raises(ServerError, match="left 1 processes behind"),
    ):
        server.end()
    assert gone(child(request_))  # and then they are ended


def test_sockets_left_behind_are_counted(request_: ServerRequest) -> None:
    with serving(like(request_, "leaves a socket")) as server:
        assert server.end() == 1


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="shared memory has no names here")
def test_shared_memory_left_behind_is_a_fault(request_: ServerRequest) -> None:
    name = Path(f"/dev/shm/cpuwheels-test-{os.getpid()}-server")
    request = replace(request_, env={**request_.env, "SHARED": str(name)})
    try:
        with (
            serving(like(request, "leaves memory")) as server,
            pytest.raises(ServerError, match=f"left shared memory behind: {name}"),
        ):
            server.end()
    finally:
        name.unlink()


def test_what_a_request_says_is_on_the_command_line(request_: ServerRequest) -> None:
    command = [str(part) for part in request_.command(8000)]
    assert "--enforce-eager" in command
    more = replace(request_, length=64, sequences=3, compiled=True, arguments=("--seed", "1")).command(8000)
    text = " ".join(str(part) for part in more)
    assert "--enforce-eager" not in text
    assert "--max-model-len 64 --max-num-seqs 3" in text
    assert text.endswith("--seed 1")


def test_an_interrupt_leaves_no_process(request_: ServerRequest) -> None:
    with pytest.raises(KeyboardInterrupt), serving(like(request_, "leaves", ending=1)):
        raise KeyboardInterrupt
    assert gone(child(request_))


def test_what_its_processes_have_loaded(request_: ServerRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {"maps": "7f0 r-xp 00 /x/site-packages/vllm/_C_AVX2.abi3.so\n", "environ": ""}
    monkeypatch.setattr(servers, "_read", lambda _, name: shown[name])
    with serving(request_) as server:
        found = server.processes()
        server.end()
    assert found is not None
    assert [each.libraries for each in found] == [{"_C_AVX2"}] * 2
    assert sorted(each.computes for each in found) == [False, True]
