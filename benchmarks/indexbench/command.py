"""The benchmark of the wheel index.

Makes an index of many commits with a wheel for each of some targets (their pages, and files of a few bytes), then adds
wheels one at a time, of the newest commit and of commits in between, and reports how long each took and what it wrote.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cpuwheels.core.errors import CpuwheelsError
from cpuwheels.index.address import open_bucket
from cpuwheels.index.bucket import Bucket, Folder
from cpuwheels.index.commit_pages import NEWEST, Commits, Day, day_of, row_of
from cpuwheels.index.entry import Entry, stamp
from cpuwheels.index.html import view_page
from cpuwheels.index.layout import COMMITS, FORMAT_FILE, NIGHTLY
from cpuwheels.index.overview import day_pages, root_page
from cpuwheels.index.publish import Publication, publish
from cpuwheels.index.reading import Format
from cpuwheels.index.simple_pages import page_text, view_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

TARGETS = ("arm", "macos", "s390x", "x86", "x86-avx2")
LIMIT_SECONDS = 1.0
_PER_DAY = 60
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Counting(Folder):
    """A folder that notes what is written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.written: list[str] = []

    def write(self, path: str, content: bytes) -> None:
        """Write a file, replacing an existing one."""
        self.written.append(path)
        super().write(path, content)

    def add(self, path: str, content: bytes | Path) -> bool:
        """Write a file unless it exists."""
        self.written.append(path)
        return super().add(path, content)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the benchmark and exit: 0, 1 if adding a wheel took too long with ``--require``."""
    options = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(dir=options.work) as name:
            worst = _run(Path(name), options)
    except CpuwheelsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(1 if options.require and worst > LIMIT_SECONDS else 0)


def _run(folder: Path, options: argparse.Namespace) -> float:
    began = time.monotonic()
    fill(open_bucket(str(folder / "index")), options.commits)
    print(f"an index of {options.commits:,} commits with {len(TARGETS)} wheels each: {time.monotonic() - began:.0f} s")
    seconds: list[float] = []
    written = 0
    for number in range(options.wheels):
        # The newest commit, and every second time one in between that lacks a wheel.
        commit = options.commits + number if number % 2 == 0 else options.commits * number // options.wheels
        wheel = folder / _entry(commit, f"extra{number}").filename
        wheel.write_text(wheel.name)
        entry = _entry(commit, f"extra{number}")
        bucket = Counting(folder / "index")
        start = time.monotonic()
        publish(bucket, Publication(entry, wheel, b"Metadata", {"record.json": b"{}"}, nightly=True))
        seconds.append(time.monotonic() - start)
        written = max(written, len(bucket.written))
    result = {
        "commits": options.commits,
        "targets": len(TARGETS),
        "wheels": options.wheels,
        "files_written_at_most": written,
        "median_seconds": round(statistics.median(seconds), 4),
        "longest_seconds": round(max(seconds), 4),
    }
    print(json.dumps(result, indent=1))
    worst = max(seconds)
    print(f"target: at most {LIMIT_SECONDS:g} s for a wheel: {'met' if worst <= LIMIT_SECONDS else 'missed'}")
    return worst


def fill(bucket: Bucket, commits: int) -> None:
    """Write the pages of an index that has many commits, as publishing each of its wheels would leave them."""
    bucket.write(FORMAT_FILE, Format().model_dump_json().encode())
    newest = Commits()
    day = Day()
    for number in range(commits):
        entries = [_entry(number, target) for target in TARGETS]
        if number % _PER_DAY == 0:
            day = Day()
        for entry in entries:
            day = day.with_row(row_of(entry))
        view = str(entries[0].commit)
        pages = view_pages(view, entries) | view_page(view, entries)
        pages |= day_pages(day_of(entries[0]), day)
        bucket.write_pages(pages)
        if commits - number <= NEWEST:
            for entry in entries:
                newest = newest.with_row(row_of(entry))
    days = sorted({day_of(_entry(number, TARGETS[0])) for number in range(commits)}, reverse=True)
    newest = newest.model_copy(update={"days": tuple(days)})
    last = [_entry(commits - 1, target) for target in TARGETS]
    pages = view_pages(NIGHTLY, last) | view_page(NIGHTLY, last)
    bucket.write_pages({COMMITS: page_text(newest)} | root_page(newest, last) | pages)


def _entry(number: int, target: str) -> Entry:
    commit = hashlib.sha1(str(number).encode()).hexdigest()  # noqa: S324  (looks like git's)
    version = f"0.33.1.dev{number}+g{commit[:9]}.cpu"
    name = f"vllm-{version}-cp38-abi3-manylinux_2_28_{target.replace('-', '_')}.whl"
    made = _BEGAN + timedelta(days=number // _PER_DAY, minutes=number % _PER_DAY)
    return Entry(
        filename=name,
        sha256=hashlib.sha256(name.encode()).hexdigest(),
        size=19 << 20,
        metadata_sha256="0" * 64,
        requires_python=">=3.11",
        version=version,
        target=target,
        commit=commit,
        kernels="k",
        made=stamp(made),
        uploaded=stamp(made),
        parity="passed",
        beside=("record.json",),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench index",
        description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--commits", type=int, default=10_000, help="commits in the index (default: 10000)")
    add("--wheels", type=int, default=20, help="wheels that are added (default: 20)")
    add("--require", action="store_true", help="exit with 1 if the target is missed")
    add("--work", type=Path, help="where to make it (default: the folder for temporary files)")
    return parser
