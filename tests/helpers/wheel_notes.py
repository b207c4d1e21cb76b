"""The note in a wheel of ours, made up for tests."""

from __future__ import annotations

from cpuwheels.pipeline.provenance import WheelNote


def wheel_note(*, target: str = "x86", commit: str | None = None, epoch: int = 5, **changes: object) -> WheelNote:
    """Return a whole note; keywords replace parts of it."""
    facts = {
        "target": target,
        "source": {"version": "1", "digest": "s", "epoch": epoch, "commit": commit},
        "patches": [],
        "toolchain": {"version": "GNU 14", "digest": "t"},
        "torch": {"version": "2.0", "digest": "u"},
        "onednn": None,
        "alternates": (),
        "kernel_key": "k",
        "policy": "manylinux_2_17",
        "bundled_libraries": {"demo.libs/libnuma-1.so.1": "libnuma.so.1"},
        "moved_requirements": [],
        "symbol_versions": ("GLIBC_2.17",),
    }
    return WheelNote.model_validate(facts | changes)
