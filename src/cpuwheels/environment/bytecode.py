"""The bytecode of an environment's packages: made once, used by every environment with the same files.

Each file of bytecode names the digest of the source that it was made from (PEP 552, checked hashes), and Python
compares it before use. So it may be put next to any source, and is used only with the one it belongs to.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cpuwheels.core.environ import closed_environment
from cpuwheels.core.filesystem import link_or_copy
from cpuwheels.core.process import run

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOLDER = "__pycache__"

# What cannot be imported has no bytecode; whoever needs it will report that it is missing.
_COMPILE = """\
import contextlib, importlib, py_compile, sys
for name in sys.argv[1:]:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
for path in sorted(files):
    if path.startswith(sys.prefix) and path.endswith(".py"):
        py_compile.compile(path, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
"""


def compile_imported(python: Path, names: Sequence[str], log: Path) -> None:
    """Write bytecode for every file of an environment that importing some modules reads.

    Args:
        python: The environment's interpreter.
        names: The modules; those that are not there are skipped.
        log: Log file of the step.

    Raises:
        CommandError: The interpreter fails.
    """
    run([python, "-c", _COMPILE, *names], log=log, env=closed_environment())


def link_bytecode(source: Path, target: Path) -> None:
    """Give one environment's packages the bytecode of another's, where both have the folder that it lies in.

    Args:
        source: ``site-packages`` to take it from.
        target: ``site-packages`` to put it into.

    Raises:
        OSError: It cannot be written.
    """
    for place, folders, files in os.walk(source):
        if os.path.basename(place) != _FOLDER:  # noqa: PTH119  (thousands of folders)
            continue
        folders.clear()
        package = target / Path(place).relative_to(source).parent
        if not package.is_dir():
            continue
        (package / _FOLDER).mkdir(exist_ok=True)
        for name in files:
            if not (package / _FOLDER / name).exists():
                link_or_copy(f"{place}/{name}", str(package / _FOLDER / name))
