"""What all cases of a run share, and the scripts that run in the environment that serves the wheel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.errors import ServeError
from cpuwheels.core.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.verification.serving.environment import ServingEnvironment

SCRIPTS_LOG = "serve-scripts.log"
_RESOURCES = Path(__file__).with_name("resources")


@dataclass(frozen=True)
class Setting:
    """What all cases of a run share.

    Attributes:
        environment: With the wheel and everything it requires.
        work: Folder for models, questions and answers.
        logs: Folder for the logs.
        memory: ``--gpu-memory-utilization``.
        env: Variables of every process.
        compiler: What torch.compile uses, for people; empty if there is none.
        figures: Whether speed is measured.
    """

    environment: ServingEnvironment
    work: Path
    logs: Path
    memory: float
    env: Mapping[str, str]
    compiler: str = ""
    figures: bool = False


def run_script(setting: Setting, script: str, *arguments: str | Path) -> None:
    """Run one of the scripts in ``resources/``, whose folder is where Python looks for the others.

    Raises:
        ServeError: It failed; the message has its last line.
    """
    log = setting.logs / SCRIPTS_LOG
    done = run([setting.environment.python, _RESOURCES / script, *arguments], log=log, env=setting.env, check=False)
    if done.returncode != 0:
        last = done.output.splitlines()[-1] if done.output else f"status {done.returncode}"
        raise ServeError(f"{script} failed: {last}", where=_RESOURCES / script, log=log, output=last)
