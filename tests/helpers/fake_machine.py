"""A machine of another kind made of small files: an emulator that is a script, and a root without packages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cpuwheels.config.matrix import Library
from cpuwheels.verification.emulation.machine import EmulatedMachine
from kernel_request import TARGET

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.config.matrix import Target

NEWER = Library(name="_C_NEWER", isa=(), needs=("one", "two"), emulated="max,fast=on")
OLDER = Library(name="_C_OLDER", isa=(), needs=("one",), emulated="old")

EMULATOR = """\
#!/bin/sh
# Stands for QEMU: says on which CPU it runs, and runs this machine's Python instead of the root's.
while [ "$1" != -X ]; do
  [ "$1" = -cpu ] && export EMULATED_CPU="$2"
  shift
done
exec "{python}" "$@"
"""


def foreign(**changes: object) -> Target:
    """A target of another kind of machine, with two libraries and a chooser."""
    values = {"id": "other", "machine": "other", "root": "root-other", "libraries": (NEWER, OLDER), "chooser": "_C"}
    return TARGET.model_copy(update=values | changes)


def fill_root(root: Path) -> None:
    """Put what is asked of a root into a folder."""
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/python3.99").write_bytes(b"another machine's program")
    (root / "usr/bin/python3").symlink_to("python3.99")
    (root / "usr/lib/python3/dist-packages/torch-2.5.1+debian.dist-info").mkdir(parents=True)
    (root / "usr/lib/other-linux-gnu").mkdir()


def emulator(folder: Path) -> Path:
    """Write the emulator."""
    program = folder / "qemu-other"
    program.write_text(EMULATOR.format(python=sys.executable))
    program.chmod(0o755)
    return program


def machine(folder: Path) -> EmulatedMachine:
    """A machine in a folder."""
    root = folder / "root"
    fill_root(root)
    return EmulatedMachine(
        machine="other",
        program=emulator(folder),
        root=root,
        python=root / "usr/bin/python3.99",
        torch_version="2.5.1+debian",
        features={"max,fast=on": frozenset({"one", "two"}), "old": frozenset({"one"})},
        tried={"_C_NEWER": "max,fast=on", "_C_OLDER": "old"},
        bytecode=folder / "bytecode",
    )
