"""The setting of a run of serving, with this Python in place of the wheel's environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cpuwheels.verification.serving.environment import ServingEnvironment
from cpuwheels.verification.serving.setting import Setting
from layout import HELPERS


def serving_setting(folder: Path) -> Setting:
    """Return a setting whose ``vllm`` is fake_vllm.py.

    Args:
        folder: For the environment, what is worked on, and the logs.
    """
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "bin" / "vllm").write_text((HELPERS / "fake_vllm.py").read_text())
    environment = ServingEnvironment(
        python=folder / "bin" / "python",
        site=folder,
        version="3.11",
        torch="2.13.0+cpu",
        lock="",
        lock_sha256="",
        lacks=(),
        moved=(),
    )
    env = {"PATH": os.environ["PATH"], "CHILD": str(folder / "child")}
    return Setting(environment, folder, folder / "logs", 0.2, env)
