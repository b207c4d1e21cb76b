from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cpuwheels.core.errors import ServeError
from cpuwheels.verification.serve_bench import models
from cpuwheels.verification.serve_bench.load import Load
from cpuwheels.verification.serve_bench.models import DRAFT, MADE, make_bench_models


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    script = tmp_path / "make.py"
    script.write_text(
        "import pathlib, sys\n[pathlib.Path(sys.argv[1], name).mkdir(parents=True) for name in sys.argv[2:]]"
    )
    monkeypatch.setattr(models, "_SCRIPT", script)
    return Load(Path(sys.executable), {"PATH": os.environ["PATH"]}, tmp_path / "work", tmp_path / "log")


def test_models_are_made_by_name(load: Load) -> None:
    made = make_bench_models(load, MADE)
    assert list(made) == list(MADE)
    assert DRAFT in made
    assert all(path.is_dir() and path.is_relative_to(load.work) for path in made.values())
    assert make_bench_models(load, []) == {}


def test_models_that_cannot_be_made_are_told(load: Load) -> None:
    make_bench_models(load, ["a"])
    with pytest.raises(ServeError, match="the models a, b cannot be made") as raised:
        make_bench_models(load, ["a", "b"])
    assert "FileExistsError" in raised.value.output
