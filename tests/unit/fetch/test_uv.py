"""What uv is said to have fetched, by the real uv and an index on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import uv

from cpuwheels.core.errors import CommandError
from cpuwheels.core.usage import Fetched, counted
from cpuwheels.fetch.locked_wheels import wheel_sizes
from cpuwheels.fetch.uv import install_cached, install_counted, run_uv, uv_environment
from loopback import Answer, Server
from offline_uv import settings
from small_wheels import write_wheel
from torch_wheels import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["settings"]

SIZES = {"a-b==1.0": 12345}


@pytest.fixture
def index(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """An index with one wheel."""
    wheel = write_wheel(tmp_path / "served", "a_b", "1.0")
    url = server.serve(f"/files/{wheel.name}", Answer(wheel.read_bytes()))
    server.serve("/simple/a-b/", Answer(f'<a href="{url}">{wheel.name}</a>'.encode(), headers=HTML))
    monkeypatch.setenv("UV_DEFAULT_INDEX", server.url("/simple"))
    return server


HTML = {"Content-Type": "text/html"}


@pytest.fixture
def python(tmp_path: Path) -> Path:
    run_uv(["venv", "--quiet", "--python", PYTHON, tmp_path / "venv"], tmp_path / "log")
    return tmp_path / "venv" / "bin" / "python"


def command(python: Path, *wanted: str | Path) -> list[str | Path]:
    return [uv.find_uv_bin(), "pip", "install", "--python", python, *wanted]


@pytest.mark.parametrize(
    ("sizes", "fetched"),
    [(SIZES, Fetched({"uv and pip": 12345}, 1)), ({"a-b==2": 1}, Fetched({}, 1, ("a-b",)))],
    ids=["known", "of another version"],
)
def test_what_uv_fetches_counts_once(
    index: Server, python: Path, tmp_path: Path, sizes: dict[str, int], fetched: Fetched
) -> None:
    with counted() as usage:
        done = install_counted(command(python, "a-b"), env=uv_environment(), log=tmp_path / "log", sizes=sizes)
        assert usage.fetched() == fetched
        run_uv(["pip", "uninstall", "--quiet", "--python", python, "a-b"], tmp_path / "log")
        again = install_counted(command(python, "a-b"), env=uv_environment(), log=tmp_path / "log", sizes=sizes)
    assert usage.fetched() == fetched
    assert " + a-b==1.0" in again.output
    assert " + a-b==1.0" in done.output
    assert "DEBUG" not in done.output
    assert index.sent > 0


def test_of_a_large_file_uv_prints_the_size(index: Server, python: Path, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "served", "large", "1.0", {"large.txt": "x" * (3 << 20)})
    url = index.serve(f"/files/{wheel.name}", Answer(wheel.read_bytes()))
    index.serve("/simple/large/", Answer(f'<a href="{url}">{wheel.name}</a>'.encode(), headers=HTML))
    assert wheel.stat().st_size > 3 << 20
    with counted() as usage:
        install_cached(["--python", python, "large"], uv_environment(), tmp_path / "log")
    assert usage.fetched() == Fetched({"uv and pip": 3 << 20}, 1)


def test_what_is_on_this_machine_is_not_fetched(
    index: Server, python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path / "links", "c", "1.0")
    folder = ["--no-index", "--find-links", wheel.parent]
    with counted() as usage:
        install_counted(command(python, *folder, "c"), env=uv_environment(), log=tmp_path / "log")
        monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "index").as_uri())
        install_counted(command(python, "cmake"), env=uv_environment(), log=tmp_path / "log")
    assert usage.fetched() == Fetched({}, 0)
    assert index.sent == 0


def test_what_fails_is_not_counted_and_reads_as_before(index: Server, python: Path, tmp_path: Path) -> None:
    url = index.url("/gone-1-py3-none-any.whl")
    index.serve("/gone-1-py3-none-any.whl.metadata", Answer(b"Metadata-Version: 2.1\nName: gone\nVersion: 1\n"))
    page = f'<a href="{url}" data-core-metadata="true">gone-1-py3-none-any.whl</a>'
    index.serve("/simple/gone/", Answer(page.encode(), headers=HTML))
    wanted, log = command(python, "gone==1"), tmp_path / "log"
    with counted() as usage, pytest.raises(CommandError) as raised:
        install_counted(wanted, env=uv_environment(), log=log)
    assert "DEBUG Identified uncached distribution: gone==1" in log.read_text()
    assert "gone" in raised.value.output
    assert "DEBUG" not in raised.value.output
    with counted() as again:
        done = install_counted(wanted, env=uv_environment(), log=log, check=False)
    assert done.returncode != 0
    assert usage.fetched() == again.fetched() == Fetched({}, 0)


def test_sizes_of_a_lock(tmp_path: Path) -> None:
    lock = tmp_path / "pylock.x.toml"
    tags = {"py3-none-any": 7, "py3-none-win32": 9}
    wheels = ", ".join(
        f'{{url = "https://a.org/A_b-1-{tag}.whl", size = {size}, hashes = {{sha256 = "{"0" * 64}"}}}}'
        for tag, size in tags.items()
    )
    lock.write_text(f'[[packages]]\nname = "A_b"\nversion = "1"\nwheels = [{wheels}]\n')
    assert wheel_sizes(lock, PYTHON) == {"a-b==1": 7}
