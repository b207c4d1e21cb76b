from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.core.errors import UsageError
from cpuwheels.image.push import check_place, is_loopback, push


class Recorder:
    """In place of the programs: keeps what they are started with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.env: dict[str, str] = {}

    def run(self, name: str, *arguments: object, env: dict[str, str], why: str) -> None:
        assert why
        self.calls.append((name, *map(str, arguments)))
        self.env = env


@pytest.mark.parametrize("place", ["ghcr.io/me/vllm:1.0", "127.0.0.1:5000/vllm:1.0-cpu", "[::1]:5000/a/b:x"])
def test_a_place_in_full_is_taken(place: str) -> None:
    assert check_place(place) == place


@pytest.mark.parametrize("place", ["vllm", "vllm:1.0", "ghcr.io/me/vllm", "ghcr.io/me/x:1+cpu", "ghcr.io/Me/x:1", ""])
def test_a_place_that_lacks_something_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="names no registry, repository and tag"):
        check_place(place)


@pytest.mark.parametrize(
    ("host", "right"),
    [("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("[::1]", True), ("10.0.0.1", False), ("x", False)],
)
def test_only_this_machine_is_asked_without_tls(host: str, right: bool) -> None:
    assert is_loopback(host) is right


def test_oras_copies_the_layout(tmp_path: Path) -> None:
    tools = Recorder()
    push(tools, tmp_path, "1.0", "ghcr.io/me/vllm:1.0", {"DOCKER_CONFIG": "/keys", "OTHER": "x"})  # type: ignore[arg-type]
    assert tools.calls == [("oras", "cp", "--no-tty", "--from-oci-layout", f"{tmp_path}:1.0", "ghcr.io/me/vllm:1.0")]
    assert tools.env["DOCKER_CONFIG"] == "/keys"
    assert "OTHER" not in tools.env
    push(tools, tmp_path, "1.0", "localhost:5000/vllm:1.0", {})  # type: ignore[arg-type]
    assert "--to-plain-http" in tools.calls[-1]
