"""Draw docs/images/farm-machines.svg: the machines of a farm, what each does, and what goes between them.

python .ci/farm_drawing.py            # writes it
python .ci/farm_drawing.py --check    # is it what would be written?
"""

from __future__ import annotations

import sys

from architecture import Arrow, Box, Drawing, Note, Zone, write

TITLE = "A farm: who asks for wheels, who schedules, who compiles, packs and tests, and who publishes"

ZONES = (
    Zone(10, 10, 220, 290, "own", "Machine that asks"),
    Zone(290, 10, 460, 402, "own", "Farm: whoever has its certificates"),
    Zone(302, 166, 436, 180, "kept", "Workers, a job at a time each"),
    Zone(10, 322, 220, 90, "public", "Publisher: has keys"),
)
BOXES = (
    Box(22, 44, 196, "cpuwheels batch, bisect", ("graph of jobs, their keys,", "priorities")),
    Box(22, 224, 196, "dist/", ("wheels, records, reports;", "what is there is not made")),
    Box(314, 44, 412, "scheduler", ("dask.distributed: order, retries, what a worker can do",)),
    Box(314, 200, 126, "worker 1", ("compiles kernels", "in the sandbox,", "own stores")),
    Box(452, 200, 126, "worker 2", ("packs wheels,", "audits them,", "own stores")),
    Box(590, 200, 136, "worker 3", ("tests and serves:", "its CPU, or an", "emulated one")),
    Box(22, 354, 196, "publish", ("dist/ as data: no job",)),
)
NOTES = (
    Note(
        314,
        300,
        (
            "Any worker does any job that it says it can do. Wheels of the",
            "same kernels are packed from what one compiled.",
        ),
    ),
    Note(304, 370, ("No job publishes, and none gets credentials.", "Kernels are signed with the farm's own key.")),
)
ARROWS = (
    Arrow("M218 66H312", Note(240, 58, ("jobs",))),
    Arrow(
        "M334 86V164",
        Note(
            344,
            124,
            (
                "each where it fits, the longest way first;",
                "what takes three times as long as expected: on another one, too",
            ),
        ),
    ),
    Arrow("M300 246H220", Note(238, 238, ("wheels",))),
    Arrow("M440 232H450"),
    Arrow("M578 232H588"),
    Arrow("M200 282V352"),
)
FARM = Drawing("farm-machines.svg", TITLE, 760, 424, ZONES, BOXES, NOTES, ARROWS)


def main(words: list[str]) -> int:
    """Write or check; return the exit code."""
    return write(FARM, words, __doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
