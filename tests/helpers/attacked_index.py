"""What every attack on an index is judged by: one message, every link holds, and what was there is there."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bad_zips import Member, write_zip
from commit_wheels import TAGS
from cpuwheels.config.matrix import Matrix
from cpuwheels.core.errors import PublishError
from cpuwheels.index.bucket import Folder
from cpuwheels.index.check import check_index
from cpuwheels.index.publish_wheel import publish_wheel
from cpuwheels.wheel.dist_info import content_digest, render_record
from index_publications import check_links
from wheel_notes import wheel_note
from wheel_sboms import with_sbom

SECONDS, MEMORY = 20, 96 << 20
COMMIT = f"{7:040x}"
VERSION = f"0.32.1.dev7+g{COMMIT[-9:]}"
EPOCH = 1_790_000_000 + 7 * 40_000


def files(root: Path) -> dict[str, bytes]:
    """Return everything below a folder, but for the publishers' own lock."""
    return {
        str(path): path.read_bytes() for path in root.rglob("*") if path.is_file() and ".publishing" not in str(path)
    }


def members(version: str = f"{VERSION}.cpu", *, tag: str = f"cp38-abi3-{TAGS['x86']}", **changes: Any) -> list[Member]:
    """Return the members of a wheel; keywords replace `metadata`, `wheel`, the facts of the note, or `record`."""
    info = f"vllm-{version}.dist-info"
    metadata = changes.pop("metadata", f"Metadata-Version: 2.4\nName: vllm\nVersion: {version}\n")
    record, more = changes.pop("record", None), changes.pop("more", {})
    note = changes.pop("note", None)
    if note is None:
        facts = {"target": "x86", "commit": COMMIT, "epoch": EPOCH} | changes
        note = wheel_note(**facts).render()
    content = {
        "vllm/_C.abi3.so": b"code",
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{info}/cpuwheels.json": note,
    }
    # Of the wheel before it is attacked: what is wrong with that is found first.
    with contextlib.suppress(ValueError, TypeError):
        content = with_sbom(content, info, f"vllm-{version}-{tag}.whl")
    content |= more
    rows = [(name, content_digest(data), str(len(data))) for name, data in content.items()]
    rows = [*rows, (f"{info}/RECORD", "", "")] if record is None else record(rows, info)
    return [Member(name, data) for name, data in (content | {f"{info}/RECORD": render_record(rows)}).items()]


@dataclass(frozen=True)
class Attacked:
    """An index with three wheels, and a user's file next to it.

    Attributes:
        root: The index.
        base: Folder of everything.
        matrix: The configuration.
    """

    root: Path
    base: Path
    matrix: Matrix

    @property
    def bucket(self) -> Folder:
        return Folder(self.root)

    def write(
        self, entries: list[Member], version: str = f"{VERSION}.cpu", tag: str = f"cp38-abi3-{TAGS['x86']}"
    ) -> Path:
        """Write a wheel into a folder of its own, with a record next to it."""
        path = self.base / "hostile" / f"vllm-{version}-{tag}.whl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(write_zip(entries))
        path.with_name("record.json").write_text("{}")
        return path

    def publish(self, path: Path, **asked: Any) -> Any:
        return publish_wheel(self.bucket, path, self.matrix, nightly=True, **asked)

    def refuses(self, path: Path, words: str, **asked: Any) -> str:
        """Publish a wheel, and check that this ends with one message and changes nothing; return the message."""
        before, outside = files(self.root), files(self.base / "home")
        began = time.monotonic()
        tracemalloc.start()
        try:
            with pytest.raises(PublishError, match=words) as raised:
                self.publish(path, **asked)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert time.monotonic() - began < SECONDS
        assert peak < MEMORY
        assert files(self.root) == before
        assert files(self.base / "home") == outside
        assert all(line.isprintable() for line in str(raised.value).splitlines())
        self.holds()
        return str(raised.value)

    def holds(self) -> None:
        """Check that nothing is wrong with the index and that every link of it leads somewhere."""
        assert [fault.what for fault in check_index(self.bucket)] == []
        assert check_links(self.root) > 0
