"""A locked build of the real x86 wheel with empty stores of what is fetched: the same check as on the tiny project."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cpuwheels.config.matrix import load_matrix
from cpuwheels.core.store import default_root
from fence import run_fenced
from layout import ROOT
from listed_requests import expected
from noting_proxy import noting_proxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(6 * 3600)]

COMPILED = ("kernels", "reads", "tcmalloc-built")
"""Kinds of the store that hold what was compiled, and which of upstream's files that depends on, and nothing that was
fetched; without them it compiles for an hour. Kernels count only in the folder that they were made in."""

EMPTIED = f"""
set -e
stores="$1" empty="$2"
shift 2
for kind in {" ".join(COMPILED)}
do
    mkdir -p "$stores/$kind" "$empty/$kind"
    mount --bind "$stores/$kind" "$empty/$kind"
done
mount --rbind "$empty" "$stores"
exec "$@"
"""
"""Runs a command that finds empty stores in place of this machine's, but for what was compiled."""


def test_the_real_wheel_is_built_from_what_is_listed_alone(tmp_path: Path) -> None:
    """Fallbacks that are listed are used where GitHub or PyTorch's index is out of reach."""
    matrix = load_matrix(ROOT)
    listed = expected(ROOT, "x86", matrix.source_of(matrix.target("x86")))
    (tmp_path / "cache").mkdir()
    stores, empty = str(default_root()), str(tmp_path / "cache")
    places = ["--root", str(ROOT), "--cache", stores, "--dist", str(tmp_path / "dist")]
    options = ["build", "x86", "--locked", "--allow-fallbacks", "--toolchain", "debian"]
    emptied = ["unshare", "--mount", "sh", "-c", EMPTIED, "sh", stores, empty]
    command = [*emptied, sys.executable, "-m", "cpuwheels", *places, *options]
    with noting_proxy(tmp_path) as proxy:
        done = run_fenced(command, proxy.socket, {"UV_CACHE_DIR": str(tmp_path / "uv")})
    assert done.returncode == 0, done.stderr
    assert listed.unlisted(proxy.asked) == []
    number, wrong = listed.unlisted_in_log(tmp_path / "dist")
    assert wrong == []
    fetched = {row.location for row in listed.rows if row.stage in {"source", "toolchain", "sysroot", "sandbox"}}
    assert number >= len(fetched) > 40
    record = json.loads((Path(done.stdout.strip().splitlines()[-1]).parent / "record.json").read_text())
    assert record["parameters"]["locked"] is True
    assert {row["digest"]["sha256"] for row in record["dependencies"] if "sha256" in row["digest"]} > {
        row.digest["sha256"] for row in listed.rows if row.stage == "source"
    }
