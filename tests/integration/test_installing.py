"""Every command that pages and the documentation show installs our wheel and the CPU build of torch, run as shown.

PyPI, which is real here, offers a newer ``vllm``.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from cpuwheels.index.installs import ADDRESS
from cpuwheels.wheel.install_commands import TORCH_INDEX, newest_command, pip_command, uv_command
from documented_commands import documented
from install_web import (
    BUILT,
    COMMIT,
    EXAMPLE,
    NEWEST,
    PYTORCH,
    RELEASE,
    TORCH,
    Web,
    installed,
    new_venv,
    with_newest_pip,
)
from layout import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    return new_venv(tmp_path / "venv")


def shown(web: Web, page: str) -> dict[str, str]:
    """Return a page's first commands, x86's, by their labels, with the address that its script fills in."""
    text = (web.index / page).read_text()
    found = re.findall(r'<div class="command"><span[^>]*>([^<]+)</span><code>(.*?)</code>', text)
    return {program: unescape(command).replace(f"{ADDRESS}/", web.url) for program, command in reversed(found)}


def install(web: Web, command: str, venv: Path, version: str) -> None:
    done = web.run(command, venv)
    assert done.returncode == 0, done.stderr
    found = installed(venv)
    assert (found["vllm"], found["torch"]) == (version, TORCH)
    assert "iniconfig" in found


@pytest.mark.parametrize("program", ["uv", "pip"])
@pytest.mark.parametrize(("page", "version"), [(f"{COMMIT}/index.html", NEWEST), ("0.32.0/index.html", RELEASE)])
def test_a_page_shows_what_installs_its_wheel(web: Web, venv: Path, page: str, version: str, program: str) -> None:
    install(web, shown(web, page)[program], venv, version)


@pytest.mark.parametrize("program", ["uv", "pip"])
@pytest.mark.parametrize(("page", "version"), [(f"{COMMIT}/index.html", NEWEST), ("0.32.0/index.html", RELEASE)])
class TestTheLockOnAPage:
    """The release's names the wheel by its URL, the commit's by its path."""

    def test_installs_its_wheel(
        self, web: Web, venv: Path, tmp_path: Path, page: str, version: str, program: str
    ) -> None:
        done = web.run(shown(web, page)[f"{program}, locked"], with_newest_pip(venv), tmp_path)
        assert done.returncode == 0, done.stderr
        assert installed(venv).items() >= {("vllm", version), ("torch", TORCH)}
        assert "iniconfig" in installed(venv)

    def test_refuses_a_wheel_with_other_bytes(
        self, web: Web, venv: Path, tmp_path: Path, page: str, version: str, program: str
    ) -> None:
        (wheel,) = web.index.glob(f"files/*/vllm-{version}-*x86_64.whl")
        content = wheel.read_bytes()
        wheel.write_bytes(content + b"\0")
        try:
            done = web.run(shown(web, page)[f"{program}, locked"], with_newest_pip(venv), tmp_path)
        finally:
            wheel.write_bytes(content)
        assert done.returncode != 0
        assert re.search("Hash mismatch|DO NOT MATCH THE HASHES", done.stderr)
        assert "vllm" not in installed(venv)


@pytest.mark.parametrize("program", ["uv", "pip"])
@pytest.mark.parametrize("page", ["index.html", "nightly/index.html"])
def test_the_newests_pages_show_what_installs_them(web: Web, venv: Path, page: str, program: str) -> None:
    install(web, shown(web, page)[program], venv, NEWEST)


@pytest.mark.parametrize("command", documented(ROOT))
def test_the_documentation_shows_what_works(web: Web, venv: Path, command: str) -> None:
    before = len(web.asked)
    version = NEWEST if "nightly" in command else BUILT if "dist/" in command else RELEASE
    install(web, command, venv, version)
    assert PYTORCH in web.asked[before:]
    assert (EXAMPLE in web.asked[before:]) == (EXAMPLE in command)


def test_the_newest_takes_the_place_of_an_older_one(web: Web, venv: Path) -> None:
    view = f"{web.url}nightly/cpu"
    install(web, uv_command(f"{web.url}0.32.0/cpu", RELEASE), venv, RELEASE)
    install(web, newest_command(view), venv, NEWEST)


def test_pip_takes_plain_http_from_a_host_that_it_is_told_to_trust(web: Web, venv: Path) -> None:
    # Every address of this machine that is no loopback address to pip.
    command = pip_command(f"{web.url.replace('127.0.0.1', '0.0.0.0')}0.32.0/cpu", RELEASE)
    assert web.run(command, venv).returncode != 0
    install(web, f"{command} --trusted-host 0.0.0.0", venv, RELEASE)


def test_nothing_else_here_has_torch(web: Web, venv: Path) -> None:
    """What the commands say of torch is what makes them work, and no setting of this machine."""
    view = f"{web.url}0.32.0/cpu"
    for command in (
        uv_command(view, RELEASE).replace(" --torch-backend cpu", ""),
        pip_command(view, RELEASE).replace(f" --extra-index-url {TORCH_INDEX}", ""),
    ):
        done = web.run(command, venv)
        assert done.returncode != 0
        assert f"torch=={TORCH}" in done.stderr


def test_without_the_version_pip_takes_pypis(web: Web, venv: Path) -> None:
    command = pip_command(f"{web.url}0.32.0/cpu", RELEASE).replace(f"vllm=={RELEASE}", "--dry-run --no-deps vllm")
    done = web.run(command, venv)
    assert "Would install vllm-" in done.stdout
    assert RELEASE not in done.stdout
