# ruff: noqa: PTH118, PTH113  (thousands of files)
"""Compile all Python files below a folder. Runs in the image's own Python.

    python compile_all.py FOLDER PLACE

PLACE is where the folder will be; tracebacks name it. Files are compiled one after another in the order of their names,
since what Python writes depends on what it has compiled before. The bytecode says that nothing has to be checked before
it is used (PEP 552, unchecked hashes): an image's files do not change, and their times say nothing.
"""

from __future__ import annotations

import contextlib
import os
import py_compile
import sys


def main(folder: str, place: str) -> None:
    """Write the bytecode; a file that is no Python of this version is left out."""
    files = sorted(
        os.path.join(below, name)
        for below, _, names in os.walk(folder)
        for name in names
        if name.endswith(".py") and os.path.isfile(os.path.join(below, name))
    )
    for path in files:
        with contextlib.suppress(py_compile.PyCompileError, UnicodeDecodeError):
            py_compile.compile(
                path,
                dfile=os.path.join(place, os.path.relpath(path, folder)),
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
