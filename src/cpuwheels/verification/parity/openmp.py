"""How the threads of operators wait for each other."""

from __future__ import annotations

WAITING = {"GOMP_SPINCOUNT": "10000"}
"""How often GNU's OpenMP threads look for work before they sleep, as an environment variable. If they keep spinning,
they take CPUs from threads that compute: if anything else runs, cases take several times as long, and the threads of
one process disturb the timing in another for milliseconds."""
