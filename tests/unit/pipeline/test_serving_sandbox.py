"""What confines a server and those that ask it, and where nothing does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contexts import build_context
from cpuwheels.pipeline import serving_sandbox as module
from cpuwheels.pipeline.serving_sandbox import model_places, serving_sandbox
from cpuwheels.pipeline.user_places import UserPlaces
from cpuwheels.sandbox import prepare
from cpuwheels.sandbox.confine import Confined, unconfined
from cpuwheels.sandbox.mechanism import Mechanism

NETWORK = Path("/proc/7/ns/net")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in ("work/venv/bin", "short", "data", "project"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work" / "venv" / "bin" / "python").symlink_to(sys.executable)
    return tmp_path / "work"


def plan_of(confined: Confined) -> dict:
    plan = json.loads(Path(confined.argv[confined.argv.index("--") - 1]).read_text())
    words = plan["mounts"]
    plan["binds"] = {(words[place], words[place + 1]) for place in range(len(words) - 1)}
    return plan


def test_the_server_the_client_and_the_script_share_a_network(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def shared(_sandbox: object, folder: Path, _plans: Path) -> Iterator[Path]:
        assert folder.is_dir()
        yield NETWORK

    monkeypatch.setattr(prepare, "_mechanism", lambda _: Mechanism("user namespace", program=Path("/bwrap")))
    monkeypatch.setattr(module, "shared_network", shared)
    base, python = work.parent, work / "venv" / "bin" / "python"
    with serving_sandbox(build_context(base), work, {"TMPDIR": str(base / "short")}) as sandbox:
        confined = sandbox.confine(python, [work / "venv"])([python, "serve"], {"HOME": "/home/someone"})
        server = plan_of(confined)
        script = sandbox.script(python, [work / "venv"], UserPlaces(base / "project", (base / "data",)))
        asks = plan_of(script(["ask"], {}))
        assert sandbox.as_record() == {"mechanism": "bubblewrap with a user namespace", "reason": ""}
    for plan in (server, asks):
        assert plan["network"] == str(NETWORK)
        assert "--unshare-net" not in plan["namespaces"]
        assert ("--ro-bind", str(work / "venv")) in plan["binds"]
    assert {("--bind", str(work)), ("--bind", str(base / "short"))} <= server["binds"]
    assert confined.env["HOME"] == str(work / "home")
    assert confined.env["TMPDIR"] == str(base / "short" / "tmp")
    # The server does not see what the user shows the script.
    assert str(base / "data") not in {path for _, path in server["binds"]}
    assert {("--ro-bind", str(base / "data")), ("--ro-bind", str(base / "project"))} <= asks["binds"]


@pytest.mark.parametrize(("kind", "notes"), [("landlock", 1), ("none", 0)])
def test_without_bubblewrap_servers_run_unconfined_and_the_record_says_so(
    work: Path, monkeypatch: pytest.MonkeyPatch, kind: str, notes: int
) -> None:
    monkeypatch.setattr(prepare, "_mechanism", lambda _: Mechanism(kind, "because"))  # type: ignore[arg-type]
    context = build_context(work.parent)
    with serving_sandbox(context, work, {}) as sandbox:
        assert sandbox.confine(Path("python"), []) is unconfined
        assert sandbox.script(Path("python"), [], UserPlaces(work)) is unconfined
        assert sandbox.as_record() == {"mechanism": "not sandboxed", "reason": "because"}
    assert len([note for note in context.reporter.announcements if note.startswith("servers, and what asks")]) == notes


def test_a_model_is_readable_where_its_links_lead(tmp_path: Path) -> None:
    """As in the cache of Hugging Face's hub."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "blobs" / "1").touch()
    (tmp_path / "snapshot" / "config.json").symlink_to("../blobs/1")
    assert model_places([None, tmp_path / "snapshot"]) == [tmp_path / "snapshot", tmp_path / "blobs" / "1"]
