from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness import limits
from harness import waivers as table
from harness.expected import Near
from harness.limits import Limit, LimitsError, operator_limits
from harness.selection import families
from harness.waivers import WaiversError, waivers

ONE = Near(torch.ones(1, dtype=torch.float64), magnitude=torch.full((1,), 8.0, dtype=torch.float64), length=100)


def test_a_limit_adds_up_what_rounding_can_do() -> None:
    limit = Limit(stored=0.5, growth="sqrt", roundings=(("float32", 3.0),))
    assert limit.bound(ONE, torch.float32).total.item() == pytest.approx(0.5 * 2**-23 + 3 * 2**-24 * 10 * 8, rel=1e-12)
    assert Limit(growth="linear", roundings=(("bfloat16", 1.0),)).bound(
        ONE, torch.float32
    ).total.item() == pytest.approx(0.5 * 2**-23 + 2**-8 * 100 * 8)
    assert Limit(stored=0, growth="none", absolute=0.25).bound(ONE, torch.float32).total.item() == 0.25


def test_roundings_of_formats_that_are_cut_off_to_count_twice() -> None:
    limit = Limit(stored=0.5, growth="none", roundings=(("float32", 3.0), ("bfloat16", 1.0)))
    single = 3 * 2**-24 * 8
    assert limit.bound(ONE, torch.float32, {"bfloat16"}).total.item() == pytest.approx(
        0.5 * 2**-23 + single + 2 * 2**-8 * 8
    )
    assert limit.bound(ONE, torch.bfloat16, {"bfloat16"}).total.item() == pytest.approx(2**-7 + single + 2 * 2**-8 * 8)
    assert limit.bound(ONE, torch.bfloat16).total.item() == pytest.approx(2**-8 + single + 2**-8 * 8)


@pytest.mark.parametrize(("text", "read"), [("", True), ("false", False), ('"threads"', "threads")])
def test_limits_say_whether_the_bits_are_always_the_same(folder: Path, text: str, read: object) -> None:
    write(folder, '[op]\nderivation = "why"\n' + (f"deterministic = {text}\n" if text else ""))
    assert operator_limits("op").deterministic == read


@pytest.mark.parametrize(("feature", "read"), [(True, True), (False, "threads")])
def test_bits_may_differ_on_some_cpus_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, feature: bool, read: object
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_f": feature})
    write(folder, '[op]\nderivation = "why"\ndeterministic = "threads"\nwithout = ["avx512_f"]\n')
    assert operator_limits("op").deterministic == read


def write(folder: Path, text: str, name: str = "a.toml") -> None:
    (folder / name).write_text(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "FOLDER", tmp_path)
    for cached in (limits.operator_limits, limits._table):
        cached.cache_clear()
    yield tmp_path
    for cached in (limits.operator_limits, limits._table):
        cached.cache_clear()


def test_the_most_special_entry_counts(folder: Path) -> None:
    write(
        folder,
        '[op]\nderivation = "why"\n[op.limits]\n"out:float16" = { float16 = 4 }\nout = { float32 = 3 }\n'
        'float16 = { float32 = 2 }\n"*" = { float32 = 1 }\n',
    )
    found = operator_limits("op")
    assert found.of("out", "float16").roundings == (("float16", 4.0),)
    assert found.of("out", "float32").roundings == (("float32", 3.0),)
    assert found.of("other", "float16").roundings == (("float32", 2.0),)
    assert found.of("other", "int8").roundings == (("float32", 1.0),)


@pytest.mark.parametrize(
    "text",
    [
        "[op]\n",
        '[op]\nderivation = " "\n',
        '[op]\nderivation = "why"\nlimit = 3\n',
        '[op]\nderivation = "why"\ndeterministic = "sometimes"\n',
        '[op]\nderivation = "why"\nwithout = ["avx512_f"]\n',
        '[op]\nderivation = "why"\ndeterministic = "threads"\nwithout = []\n',
        '[op]\nderivation = "why"\nlimits.out = { float31 = 1 }\n',
        '[op]\nderivation = "why"\nlimits.out = { growth = "fast" }\n',
    ],
)
def test_what_means_nothing_is_refused(folder: Path, text: str) -> None:
    write(folder, text)
    with pytest.raises(LimitsError, match=r"a\.toml: op"):
        operator_limits("op")


def test_two_files_cannot_disagree(folder: Path) -> None:
    write(folder, '[op]\nderivation = "why"\n')
    write(folder, '[op]\nderivation = "why"\n', "b.toml")
    with pytest.raises(LimitsError, match="another file"):
        operator_limits("op")


@pytest.mark.usefixtures("folder")
def test_an_operator_that_is_not_named_has_no_limit() -> None:
    found = operator_limits("op")
    assert found.deterministic
    with pytest.raises(LimitsError, match="no limit"):
        found.of("out", "float32")


def test_the_files_can_be_read() -> None:
    assert len(limits._table()) > 3
    operators = {operator for family in families() for operator in family.operators}
    assert not set(waivers()) & operators, "what has a case needs no waiver"


@pytest.mark.parametrize(
    ("entry", "right"),
    [
        ('reason = "no oracle"\nneeded = "one"', True),
        ('reason = "no oracle"', False),
        ('reason = " "\nneeded = "one"', False),
        ('reason = "no oracle"\nneeded = "one"\nmore = "x"', False),
    ],
)
def test_a_waiver_says_why_and_what_would_be_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, right: bool
) -> None:
    monkeypatch.setattr(table, "PLACE", tmp_path / "waivers.toml")
    (tmp_path / "waivers.toml").write_text(f"[numa]\n{entry}\n")
    if right:
        assert waivers.__wrapped__() == {"numa": "no oracle Needed: one"}
    else:
        with pytest.raises(WaiversError, match="numa needs a reason"):
            waivers.__wrapped__()
