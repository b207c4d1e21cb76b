"""Entries of an index, made up for tests."""

from __future__ import annotations

from cpuwheels.index.entry import Entry

COMMIT = "c" * 40


def entry(**changes: object) -> Entry:
    values: dict[str, object] = {
        "filename": "vllm-0.32.1.dev5+gccccccccc.cpu-cp38-abi3-manylinux_2_27_x86_64.whl",
        "sha256": "a" * 64,
        "size": 7,
        "metadata_sha256": "b" * 64,
        "requires_python": "<3.15,>=3.11",
        "version": "0.32.1.dev5+gccccccccc.cpu",
        "target": "x86",
        "commit": COMMIT,
        "uploaded": "2026-11-23T05:00:00Z",
        "made": "2026-11-22T23:00:00Z",
    }
    return Entry.model_validate(values | changes)
