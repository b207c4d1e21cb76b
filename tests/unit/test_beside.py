"""Work beside other work ends with it, however that ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.beside import beside

if TYPE_CHECKING:
    import threading


def test_it_goes_on_until_the_block_ends() -> None:
    done: list[str] = []

    def work(stop: threading.Event) -> None:
        done.append("begun")
        stop.wait()
        done.append("ended")

    with beside(work):
        assert "ended" not in done
    assert done == ["begun", "ended"]


def test_it_ends_when_the_block_fails() -> None:
    done: list[bool] = []
    with pytest.raises(KeyError), beside(lambda stop: done.append(stop.wait())):
        raise KeyError
    assert done == [True]
