"""A farm's processes that cannot start say why."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path

import pytest

from cpuwheels.core.errors import FarmError
from cpuwheels.farm.cluster import Place, run_scheduler, run_worker, signing_key
from cpuwheels.farm.security import make_certificates
from farms import machine, site_in


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # tornado leaves its socket open
def test_an_address_that_is_taken(tmp_path: Path) -> None:
    make_certificates(tmp_path / "keys")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(FarmError, match="the scheduler cannot listen"):
        asyncio.run(run_scheduler(tmp_path / "keys", "127.0.0.1", taken.getsockname()[1], [], print))
    gc.collect()


def test_without_certificates_nothing_listens(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match=r"there is no farm\.pem"):
        asyncio.run(run_scheduler(tmp_path, "127.0.0.1", 0, [], print))


def test_a_worker_without_a_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_certificates(tmp_path / "keys")
    monkeypatch.setattr("cpuwheels.farm.cluster.START_SECONDS", 3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tls://127.0.0.1:{silent.getsockname()[1]}"
    place = Place(site_in(tmp_path, "one", carries=True), machine("one"))
    with pytest.raises(FarmError, match="worker one does not start"):
        asyncio.run(run_worker(address, tmp_path / "keys", place, "127.0.0.1", print))


def test_kernels_are_signed_by_the_farms_key(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    assert signing_key(tmp_path).is_file()
