"""Wait until a server of this machine's loopback address takes requests.

python -I wait_for_server.py PORT
"""

from __future__ import annotations

import sys
import time
from http.client import HTTPConnection, HTTPException

_PAUSE_SECONDS = 0.25


def healthy(port: int) -> bool:
    """Return whether the server says that it is."""
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return 200 <= connection.getresponse().status < 300  # noqa: PLR2004
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    while not healthy(int(sys.argv[1])):
        time.sleep(_PAUSE_SECONDS)
