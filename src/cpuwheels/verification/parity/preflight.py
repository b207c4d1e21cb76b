"""Whether torch itself computes on this CPU: checked first, so that operators are not blamed for torch's failure.

vLLM's operators and the cases' own products go through torch and its oneDNN. Where the processor announces instructions
that do not work, the first product dies of a signal, whatever wheel is tested.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.config.installation import command_line
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import PreflightError
from cpuwheels.core.process import how_ended, run
from cpuwheels.sandbox.confine import unconfined
from cpuwheels.verification.onednn_isa import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpuwheels.sandbox.confine import Confine

_WRONG = 3  # torch_products.py
SCRIPTS = Path(__file__).parent / "resources"
_SCRIPT = SCRIPTS / "torch_products.py"


def require_products(python: str | Path, env: Mapping[str, str], log: Path, confine: Confine = unconfined) -> None:
    """Let torch compute a product in bfloat16 and one in int8, in a process of its own.

    Args:
        python: Interpreter of an environment with torch.
        env: Variables that it needs on this CPU.
        log: Log file of the process.
        confine: Confines the process: what is installed with torch may run when its interpreter starts.

    Raises:
        PreflightError: It dies, or its result is wrong.
    """
    said: list[str] = []
    confined = confine([python, "-P", _SCRIPT], closed_environment(env))
    done = confined.ended(run(confined.argv, log=log, env=confined.env, on_line=said.append, check=False))
    if done.returncode == 0:
        return
    product = next((line for line in reversed(said) if line.startswith("torch: ")), "torch: its import")
    how = "is wrong" if done.returncode == _WRONG else how_ended(done.returncode)
    held = f" with {VARIABLE}={env[VARIABLE]}" if VARIABLE in env else ""
    raise PreflightError(
        f"torch does not compute on this CPU{held}: {product.removeprefix('torch: ')} {how}",
        where=python,
        log=log,
        output=done.output,
        next_step=f"see what {command_line('doctor')} says of AMX; "
        f"try {VARIABLE}=AVX512_CORE_BF16 or AVX2, which torch obeys too",
    )
