"""One step of ``git bisect run``: what is checked out is built by upstream's CMake project as it is, then judged.

    python -m bisectbench.upstream step.json

The build folder is new each time, as one that another commit configured cannot be relied on; the compiler cache is
kept. The modules are put beside the Python files, as an editable install does it: no wheel is packed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cpuwheels.git import Git

UNBUILDABLE = 125
"""What ``git bisect run`` takes for a commit that cannot be tried."""


def main(path: Path) -> int:
    """Return the exit code for ``git bisect run``.

    Args:
        path: JSON with ``configure``, ``build`` and ``check`` (command lines), ``environment``, ``folder`` (of the
            build), ``tree`` (work tree), ``log`` and ``steps`` (file that this step's seconds are added to).
    """
    setting: dict[str, Any] = json.loads(path.read_text())
    folder, tree = Path(setting["folder"]), Path(setting["tree"])
    seconds: dict[str, float] = {}
    code = 0
    shutil.rmtree(folder, ignore_errors=True)
    with Path(setting["log"]).open("ab") as log:
        for name in ("configure", "build", "check"):
            began = time.monotonic()
            if name == "check":
                for module in (tree / "vllm").glob("*.so"):
                    module.unlink()
                for module in folder.glob("*.so"):
                    shutil.copyfile(module, tree / "vllm" / module.name)
            environment = setting["environment"] | ({"PYTHONPATH": str(tree)} if name == "check" else {})
            done = subprocess.run(setting[name], env=environment, cwd=tree, stdout=log, stderr=log, check=False)
            seconds[name] = round(time.monotonic() - began, 2)
            code = done.returncode
            if code and name != "check":
                code = UNBUILDABLE
            if code:
                break
    commit = Git(tree).ask("rev-parse", "HEAD").output.strip()
    with Path(setting["steps"]).open("a") as steps:
        steps.write(json.dumps({"commit": commit, "code": code, "seconds": seconds}) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
