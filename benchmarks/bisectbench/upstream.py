"""One step of ``git bisect run``: upstream's ``setup.py`` builds the checkout, which is installed and tested.

    python -m bisectbench.upstream step.json

Everything that an earlier step made is removed first, as a build folder that another commit configured cannot be relied
on; the compiler cache is kept.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cpuwheels.fetch.git import Git

UNBUILDABLE = 125
"""Exit code for ``git bisect run`` of a commit that cannot be tested."""

CHECK = "check"
"""The command whose exit code is the verdict."""


def main(path: Path) -> int:
    """Return the exit code for ``git bisect run``.

    Args:
        path: JSON with ``commands`` (by name, in order; the last is the check), ``environment``, ``remove`` (what
            earlier steps made), ``tree`` (work tree), ``log`` and ``steps`` (file that this step's seconds go to).
    """
    setting: dict[str, Any] = json.loads(path.read_text())
    seconds: dict[str, float] = {}
    code = 0
    for folder in setting["remove"]:
        shutil.rmtree(folder, ignore_errors=True)
    with Path(setting["log"]).open("ab") as log:
        for name, command in setting["commands"].items():
            began = time.monotonic()
            done = subprocess.run(
                command, env=setting["environment"], cwd=setting["tree"], stdout=log, stderr=log, check=False
            )
            seconds[name] = round(time.monotonic() - began, 2)
            code = done.returncode
            if code:
                code = code if name == CHECK else UNBUILDABLE
                break
    commit = Git(Path(setting["tree"])).ask("rev-parse", "HEAD").output.strip()
    with Path(setting["steps"]).open("a") as steps:
        steps.write(json.dumps({"commit": commit, "code": code, "seconds": seconds}) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
