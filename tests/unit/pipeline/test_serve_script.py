"""A script that asks a server with the wheel."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuwheels.config.matrix import Matrix, load_matrix
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.core.console import Reporter
from cpuwheels.core.store import Store
from cpuwheels.pipeline import serve_script as module
from cpuwheels.pipeline.serve_script import ScriptRequest, ScriptResult, serve_script
from cpuwheels.verification.serving.server import NAME, ServerError, ServerRequest

URL = "http://127.0.0.1:9/v1"


class Servers:
    """Runs scripts with a server that takes no requests."""

    def __init__(self, base: Path, matrix: Matrix, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base, self.matrix, self.reporter = base, matrix, reporter
        self.requests: list[ServerRequest] = []
        self.ended = 0
        self.start_fault = self.end_fault = ""
        context = SimpleNamespace(
            store=Store(base / "cache"), logs=base, reporter=reporter, target=None, options=BuildOptions()
        )
        wheel = SimpleNamespace(torch="2.13.0")
        environment = SimpleNamespace(python=Path(sys.executable))
        steps: dict[str, Any] = {
            "check_own_machine": lambda _: None,
            "read_wheel": lambda *_: wheel,
            "open_context": lambda *_: context,
            "this_cpu": lambda _: None,
            "hold_onednn_back": lambda *_: None,
            "torch_environment": lambda *_: SimpleNamespace(debian=None, places=[]),
            "serving_environment": lambda *_, **__: environment,
            "make_models": lambda *_: {"qwen3": base / "models" / "qwen3"},
            "serving": self._serving,
        }
        for name, step in steps.items():
            monkeypatch.setattr(module, name, step)

    @contextmanager
    def _serving(self, request: ServerRequest) -> Iterator[SimpleNamespace]:
        self.requests.append(request)
        if self.start_fault:
            raise ServerError(self.start_fault)
        yield SimpleNamespace(url=URL, end=self._end)

    def _end(self) -> None:
        self.ended += 1
        if self.end_fault:
            raise ServerError(self.end_fault)

    def run(self, text: str, name: str = "ask.py", limit: float | None = None, **env: str) -> ScriptResult:
        script = self.base / name
        script.write_text(text)
        script.chmod(0o755)
        paths = Paths(self.base, self.base / "cache", self.base / "dist")
        return serve_script(
            paths, self.matrix, "x86", self.base / "a.whl", ScriptRequest(script, limit, env), self.reporter
        )


@pytest.fixture
def servers(tmp_path: Path, project_root: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> Servers:
    return Servers(tmp_path, load_matrix(project_root), reporter, monkeypatch)


def test_it_finds_the_server_as_openais_client_does(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    place = servers.base / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    found = servers.run(
        "import os, sys\n"
        "names = ('OPENAI_BASE_URL', 'OPENAI_API_KEY', 'CPUWHEELS_MODEL', 'CPUWHEELS_PYTHON')\n"
        "print(*(os.environ[name] for name in names), sys.executable, os.getcwd())\n"
    )
    assert found == ScriptResult(0, "", f"{URL} none {NAME} {sys.executable} {sys.executable} {place}")
    (request,) = servers.requests
    assert (request.dtype, request.model) == ("bfloat16", servers.base / "models" / "qwen3")
    assert servers.ended == 1


def test_what_the_user_names_reaches_the_script_and_not_the_server(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s")
    asks = "import os\nprint(os.environ.get('SECRET_TOKEN'), os.environ['MINE'], os.environ['OPENAI_API_KEY'])\n"
    assert servers.run(asks, MINE="1", OPENAI_API_KEY="2").last == "None 1 none"
    assert not {"SECRET_TOKEN", "MINE"} & servers.requests[0].env.keys()


def test_another_program_is_run_as_it_is(servers: Servers) -> None:
    assert servers.run("#!/bin/sh\necho ran\nexit 125\n", "ask") == ScriptResult(125, "", "ran")


def test_a_crash_is_its_status(servers: Servers) -> None:
    assert servers.run("import os\nos.kill(os.getpid(), 11)\n").status == -11


def test_one_that_takes_too_long_is_ended(servers: Servers) -> None:
    found = servers.run("import time\nprint('began', flush=True)\ntime.sleep(60)\n", limit=1.0)
    assert found == ScriptResult(None, "no end within 1 s", "began", late=True)


def test_a_server_that_does_not_start_is_a_failure(servers: Servers) -> None:
    servers.start_fault = "the server did not start"
    assert servers.run("print(1)") == ScriptResult(None, "the server did not start", "")


def test_a_server_that_does_not_end_well_is_a_failure(servers: Servers) -> None:
    servers.end_fault = "the server left 2 processes behind"
    assert servers.run("print(1)") == ScriptResult(0, "the server left 2 processes behind", "1")
