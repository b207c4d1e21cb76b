"""A function in a process of its own, forked from one that has torch and the cases loaded already."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

Say = Callable[..., None]


def apart(work: Callable[[Say], None]) -> dict[str, Any]:
    """Run something in a process of its own and return the last that it said.

    Raises:
        RuntimeError: It ended without having said anything, or it raised.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as stream:
            status = 1
            try:
                work(lambda **said: print(json.dumps(said), file=stream, flush=True))
                status = 0
            except BaseException:  # noqa: BLE001  (whatever it is, the test shows it)
                traceback.print_exc()
            stream.flush()
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as stream:
        lines = stream.read().splitlines()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not lines or status > 0:
        raise RuntimeError(f"the process ended with {status}")
    return json.loads(lines[-1]) | ({"problem": signal.strsignal(-status)} if status < 0 else {})
