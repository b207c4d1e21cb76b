"""What all cases of a run share, and the scripts that run in the environment that serves the wheel."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import ServeError
from cpuwheels.core.process import run
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.onednn_isa import needed_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cpuwheels.sandbox.confine import Confine
    from cpuwheels.verification.onednn_isa import OnednnLimit
    from cpuwheels.verification.serving.environment import ServingEnvironment

SCRIPTS_LOG = "serve-scripts.log"
RESOURCES = Path(__file__).with_name("resources")
"""Folder of the scripts."""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false"}


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
        emulated: Whether the programs are emulated, so that everything takes many times as long.
        confine: Confines every process.
    """

    environment: ServingEnvironment
    work: Path
    logs: Path
    memory: float
    env: Mapping[str, str]
    compiler: str = ""
    figures: bool = False
    emulated: bool = False
    confine: Confine = unconfined


@contextmanager
def server_variables(work: Path, limit: OnednnLimit | None) -> Iterator[dict[str, str]]:
    """Yield the environment of every process, with which nothing is written to the user's folders.

    vLLM's sockets are in the temporary folder, and their paths may have 107 characters (unix(7)), so its path is short.
    """
    home = work / "home"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="serve-", ignore_cleanup_errors=True) as short:
        folders = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "TMPDIR": short}
        yield closed_environment({**_OFFLINE, **needed_variables(limit), **folders, "VLLM_RPC_BASE_PATH": short})


def run_script(setting: Setting, script: str, *arguments: str | Path) -> None:
    """Run one of the scripts in ``resources/``, whose folder is where Python looks for the others.

    Raises:
        ServeError: It failed; the message has its last line.
    """
    log = setting.logs / SCRIPTS_LOG
    confined = setting.confine([setting.environment.python, RESOURCES / script, *arguments], setting.env)
    done = run(confined.argv, log=log, env=confined.env, check=False)
    if done.returncode != 0:
        last = done.output.splitlines()[-1] if done.output else f"status {done.returncode}"
        raise ServeError(f"{script} failed: {last}", where=RESOURCES / script, log=log, output=last)
