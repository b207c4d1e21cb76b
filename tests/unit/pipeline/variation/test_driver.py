"""The environment of another Python that runs this program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cpuwheels.pipeline.variation import driver as module
from cpuwheels.pipeline.variation.circumstances import NotVariedError
from cpuwheels.pipeline.variation.driver import LOCK, driver_environment
from layout import ROOT


def test_it_describes_this_program_without_having_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(module, "install_cached", lambda arguments, *_: asked.append(arguments))
    python = driver_environment(tmp_path / "driver", Path(sys.executable), ROOT, tmp_path / "log", "1.2.dev3+g4")
    ask = "import importlib.metadata as m, importlib.util as u; print(m.version('cpuwheels'), u.find_spec('cpuwheels'))"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["1.2.dev3+g4", "None"]
    (arguments,) = asked
    assert {"--require-hashes", ROOT / LOCK} <= set(arguments)
    assert (ROOT / LOCK).is_file()


def test_a_python_that_cannot(tmp_path: Path) -> None:
    with pytest.raises(NotVariedError, match=r"/nonexistent/python3 cannot run it: .*log"):
        driver_environment(tmp_path / "driver", Path("/nonexistent/python3"), ROOT, tmp_path / "log", "1.2")
