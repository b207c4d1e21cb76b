"""How faults are planted in upstream's sources, and the table of those that parity finds."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from layout import ROOT

sys.path.insert(0, str(ROOT / "tests" / "planted"))  # no package: its catch.py runs where torch is
import table
from plant import Fault, PlantError, all_faults, plant

FILE = "csrc/cpu/deep/kernel.cpp"
SOURCE = """
int add(int a, int b) {
  total += a;
  return a +
      b;
}
int sub(int a, int b) { total += a; return a - b; }
"""


def fault(at: str, wrong: str, number: int = 7, **more: int) -> Fault:
    return Fault(number, "add, sub: something", FILE, at, wrong, **more)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / FILE).write_text(SOURCE)
    return tmp_path


def planted(tree: Path, *faults: Fault) -> str:
    plant(tree, faults)
    return (tree / FILE).read_text()


def test_an_expression_is_chosen_at_run_time(tree: Path) -> None:
    text = planted(tree, fault("return «a + b»;", "a - b"))
    assert "return (planted(7) ? (a - b) : (a +\n      b));" in text
    assert text.startswith('#include "../planted.h"\n')
    assert "planted(int number)" in (tree / "csrc/cpu/planted.h").read_text()


def test_a_statement_is_chosen_at_run_time(tree: Path) -> None:
    text = planted(tree, fault("int a, int b) { «total += a;» return a - b", "total -= a;"))
    assert "{ if (planted(7)) { total -= a; } else { total += a; } return a - b; }" in text


def test_the_number_of_the_place_may_be_given(tree: Path) -> None:
    text = planted(tree, fault("total += «a»", "b", which=2), fault("total += «a»", "1", number=8, which=1))
    assert [int(found) for found in re.findall(r"planted\((\d)\)", text)] == [8, 7]


@pytest.mark.parametrize("at", ["total += «a»", "total += «c»"])
def test_there_has_to_be_one_place(tree: Path, at: str) -> None:
    with pytest.raises(PlantError, match=r"has [02] places for 'add, sub: something'"):
        plant(tree, [fault(at, "b")])


def test_two_faults_cannot_be_in_one_place(tree: Path) -> None:
    with pytest.raises(PlantError, match="are in one place"):
        plant(tree, [fault("return «a - b»", "a"), fault("return a - «b»", "a", number=8)])


def test_another_name_of_a_file_is_left_alone(tree: Path) -> None:
    kept = tree / "kept.cpp"
    kept.hardlink_to(tree / FILE)
    planted(tree, fault("return «a - b»", "a"))
    assert kept.read_text() == SOURCE


def test_faults_are_numbered_and_named() -> None:
    faults = all_faults()
    assert [each.number for each in faults] == list(range(1, len(faults) + 1))
    assert [name for name, count in Counter((each.file, each.name) for each in faults).items() if count > 1] == []
    for each in faults:
        assert re.fullmatch(r"[^«»]*«[^«»]+»[^«»]*", each.at, re.DOTALL), each.name
        assert all(re.fullmatch(r"\w+", operator) for operator in each.operators), each.name
        assert not each.wrong or each.wrong.rstrip().endswith(";") or not re.search("«[^»]*;\\s*»", each.at), each.name


def test_the_table_counts_a_fault_for_each_of_its_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = (fault("", ""), fault("", "", number=8), fault("", "", number=9, amx=True))
    monkeypatch.setattr(table, "all_faults", lambda: faults)
    smoke, full, missed = {"case": "x", "level": "smoke"}, {"case": "y", "level": "full"}, {"case": None}
    trials = [(7, "add", "_C", smoke), (7, "add", "_C_AVX2", full), (7, "sub", "_C", smoke), (8, "add", "_C", missed)]
    found = [{"fault": number, "operator": of, "library": library} | how for number, of, library, how in trials]
    assert table.coverage(found) == {"add": ["3", "", "1", "1", "1"], "sub": ["3", "1", "1", "", "2"]}
    assert (table.share(found, "smoke"), table.share(found, "smoke", "full")) == (0.5, 0.75)


def test_the_page_has_the_faults_that_there_are() -> None:
    """A changed list of faults needs a run of full:planted and then ``python tests/planted/table.py``."""
    _, begun, rest = table.PAGE.read_text("utf-8").partition(table.BEGIN)
    text, ended, _ = rest.partition(table.END)
    assert begun
    assert ended
    counts = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE))
    assert {name: int(count) for name, count in counts.items()} == Counter(
        operator for each in all_faults() for operator in each.operators
    )
