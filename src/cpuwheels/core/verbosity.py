"""How much a run prints: one setting for the whole process, chosen by ``-q`` and ``-v``."""

from __future__ import annotations

import enum
import logging
import sys
from dataclasses import dataclass


class Verbosity(enum.Enum):
    """What is printed; the value is the option that means it."""

    QUIET = "-q"
    """Results and errors."""
    NORMAL = ""
    """The stages of the work too."""
    VERBOSE = "-v"
    """The commands that are run and the entries of the stores that are used, too."""


@dataclass
class _Setting:
    chosen: Verbosity = Verbosity.NORMAL


_SETTING = _Setting()


class _StderrHandler(logging.Handler):
    """Prints to standard error as it is at the time: a live view replaces it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


_HANDLER = _StderrHandler()


def set_verbosity(chosen: Verbosity) -> None:
    """Choose how much this process prints from now on; warnings of this program are always printed."""
    _SETTING.chosen = chosen
    ours = logging.getLogger("cpuwheels")
    if _HANDLER not in ours.handlers:
        ours.addHandler(_HANDLER)
    ours.setLevel(logging.INFO if chosen is Verbosity.VERBOSE else logging.WARNING)


def is_quiet() -> bool:
    """Return whether only results and errors are printed."""
    return _SETTING.chosen is Verbosity.QUIET


def verbosity_arguments() -> list[str]:
    """Return the options of the command line that choose the same for another process of this program."""
    return [_SETTING.chosen.value] if _SETTING.chosen.value else []
