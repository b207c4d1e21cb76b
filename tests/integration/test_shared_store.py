"""What one build made and shared is what the next one does not make, on another machine or with empty stores."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from cpuwheels.attestation.keys import make_key
from tiny_project import Tiny, forget

pytestmark = pytest.mark.slow

KINDS = ("kernels", "reads", "measured", "onednn", "compiler-cache")


def record_of(wheel: Path) -> dict:
    return json.loads((wheel.parent / "record.json").read_text())


def test_kernels_are_shared_signed_and_taken_by_a_locked_reader(tiny: Tiny, tmp_path: Path) -> None:
    first = dataclasses.replace(tiny, dist=tmp_path / "first")
    built = first.build()
    made = record_of(built)
    key, place = tmp_path / "key", tmp_path / "shared"
    make_key(key)

    done = first.run("share", "x86", "--store", place, "--key", key)
    assert done.returncode == 0, done.stderr
    assert f"kernels/{made['kernel_key']}: shared" in done.stderr
    assert "measured/tables: grown" in done.stderr
    again = first.run("share", "--all", "--store", place, "--key", key)
    assert again.returncode == 0, again.stderr
    assert f"kernels/{made['kernel_key']}: there" in again.stderr

    forget(tiny.cache, *KINDS)
    options = ("--store", place, "--store-key", tmp_path / "key.pub")
    second = dataclasses.replace(tiny, dist=tmp_path / "second")
    done = second.run("build", "x86", *options)
    assert done.returncode == 0, done.stderr
    assert f"[store] kernels {made['kernel_key']} (" in done.stderr
    assert "are in the store; nothing to compile" in done.stderr
    assert "[store] onednn " in done.stderr
    taken = Path(done.stdout.strip())
    record = record_of(taken)
    assert record["kernel_key"] == made["kernel_key"]
    assert record["wheel"]["sha256"] == made["wheel"]["sha256"]
    assert not record["jobs"]["compiled_in_this_run"]
    assert record["shared"]["sha256"] in {one.name.removesuffix(".tar.gz") for one in place.rglob("*.tar.gz")}
    assert record["shared"]["signer"]
    (kernels,) = (one for one in record["dependencies"] if one["stage"] == "kernels")
    assert kernels["digest"] == {"sha256": record["shared"]["sha256"]}

    # The same without the right to be believed: everything is made here.
    forget(tiny.cache, *KINDS)
    make_key(tmp_path / "other")
    third = dataclasses.replace(tiny, dist=tmp_path / "third")
    done = third.run("build", "x86", "--store", place, "--store-key", tmp_path / "other.pub")
    assert done.returncode == 0, done.stderr
    assert "nothing to compile" not in done.stderr
    assert "is not taken from there, and is made here" in done.stderr
    alone = record_of(Path(done.stdout.strip()))
    assert "shared" not in alone
    assert alone["jobs"]["compiled_in_this_run"]
    assert alone["wheel"]["sha256"] == made["wheel"]["sha256"]
    # And what it has made is what was shared.
    done = third.run("share", "--all", "--store", place, "--key", key)
    assert done.returncode == 0, done.stderr
    assert f"kernels/{made['kernel_key']}: there" in done.stderr
