"""The verdict of a command on a wheel, by the exit codes of ``git bisect run``."""

from __future__ import annotations

from cpuwheels.bisect.search import Verdict
from cpuwheels.errors import BisectError
from cpuwheels.process import signal_name

SKIP = 125
"""Exit code of a command that cannot tell, as of ``git bisect run``."""

_LAST = 127


def verdict_of(status: int, where: str) -> Verdict:
    """Return what the exit status of a shell command says.

    0 is good, 125 is skip, 1 to 127 are bad, as git-bisect(1) defines them; the shell's own 126 and 127 for a command
    that cannot be run are no verdict on a wheel and must be found before.

    Args:
        status: Of the shell; negative for a signal.
        where: The command, for the message.

    Raises:
        BisectError: Any other status: the search must not go on.
    """
    if status == 0:
        return Verdict.GOOD
    if status == SKIP:
        return Verdict.SKIP
    if 0 < status <= _LAST:
        return Verdict.BAD
    number = -status if status < 0 else status - 128
    raise BisectError(
        f"the command ended with {status}, {signal_name(number)}, which is no verdict",
        where=where,
        next_step="if a crash is what you look for, let the command turn it into one: '… || exit 1'",
    )
