"""The groups of tests: every test is in one, and a change selects those that are for its files."""

from __future__ import annotations

import ast
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from changes import Change
from groups import Choice, Group, arguments, covers, load_groups, owner, select
from layout import ROOT, TESTS

GROUPS = load_groups()
ARGUMENTS = {one.name: arguments(GROUPS, one) for one in GROUPS}
FILES = sorted(path.relative_to(ROOT).as_posix() for path in TESTS.rglob("test_*.py"))


def group(name: str, *paths: str, when: tuple[str, ...] = ()) -> Group:
    return Group(name, "", paths, when=when)


def functions(file: str) -> set[str]:
    """Return the tests of a file, as ``file::function`` or ``file::Class::function``."""
    found = set()
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found.add(f"{file}::{node.name}")
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found |= {f"{file}::{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def runs(one: Group, test: str) -> bool:
    """Return whether pytest runs a test if it gets a group's arguments; it deselects what begins with a text."""
    words = ARGUMENTS[one.name]
    left_out = tuple(word.removeprefix("--deselect=") for word in words if word.startswith("--deselect="))
    return any(covers(path, test) for path in one.paths) and not test.startswith(left_out)


@pytest.mark.parametrize("file", FILES)
def test_every_test_of_a_file_is_run_by_one_group(file: str) -> None:
    assert functions(file)
    for test in functions(file):
        assert [one.name for one in GROUPS if runs(one, test)] == [owner(GROUPS, test).name], test


@pytest.mark.parametrize("one", GROUPS, ids=lambda one: one.name)
def test_the_paths_of_a_group_are_there(one: Group) -> None:
    assert one.about
    for path in one.paths:
        assert path in functions(path.partition("::")[0]) if "::" in path else (ROOT / path).exists(), path


def test_a_pattern_has_a_file() -> None:
    done = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True)
    tracked = done.stdout.split("\0")
    for one in GROUPS:
        for pattern in one.when:
            assert any(fnmatchcase(file, pattern) for file in tracked), f"{one.name}: {pattern}"


def test_only_what_a_change_can_select_has_patterns() -> None:
    assert {one.part for one in GROUPS} == {"unit", "inside", "core", "wheel", "full", "soak"}
    assert not [one.name for one in GROUPS if one.when and one.part not in {"full", "soak"}]
    assert [one.name for one in GROUPS if one.parallel] == ["unit", "unit:campaign", "soak:readers-fuzz"]
    assert len({one.report for one in GROUPS}) == len(GROUPS)


def test_the_longest_path_has_the_test() -> None:
    groups = (group("a", "t"), group("b", "t/test_x.py"), group("c", "t/test_x.py::test_one", "t2"))
    owners = {
        "t/test_y.py": "a",
        "t/test_x.py": "b",
        "t/test_x.py::test_two": "b",
        "t/test_x.py::test_one": "c",
        "t/test_x.py::test_one[p]": "c",
        "t/test_x.py::test_one_more": "b",
        "t2/u/test_z.py::test_a": "c",
    }
    assert {test: owner(groups, test).name for test in owners} == owners
    assert owner(groups, "t3/test_a.py") is None
    assert arguments(groups, groups[0]) == ["t", "--deselect=t/test_x.py", "--deselect=t/test_x.py::test_one"]
    assert arguments(groups, groups[1]) == ["t/test_x.py", "--deselect=t/test_x.py::test_one"]
    assert arguments(groups, groups[2]) == ["t/test_x.py::test_one", "t2"]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ('[a]\nabout=""\npaths=["x"]\n[b]\nabout=""\npaths=["x"]\n', ValueError, "x belongs to a and to b"),
        ('[a]\nabout=""\npaths=["x"]\nwhenn=["y"]\n', TypeError, "whenn"),
        ('[a]\nabout=""\n', TypeError, "paths"),
    ],
)
def test_a_wrong_list_is_refused(tmp_path: Path, text: str, error: type[Exception], words: str) -> None:
    (tmp_path / "groups.toml").write_text(text)
    with pytest.raises(error, match=words):
        load_groups(tmp_path / "groups.toml")


def test_a_change_selects_what_is_for_its_files() -> None:
    a, b, c, d = (
        group("full:a", "tests/test_a.py", when=("src/a/*", "lock.txt")),
        group("full:b", "tests/test_b.py", when=("src/b/*",)),
        group("soak:c", "tests/folder", "tests/test_b.py::test_one", when=("lock.txt",)),
        group("full:d", "tests/test_d.py"),
    )

    def chosen(*files: str) -> list[Choice]:
        return select((a, b, c, d), Change(frozenset(files), "0123"))

    nothing = "nothing that it is for has changed since 0123"
    never = Choice(d, selected=False, why="no change selects it")
    assert chosen("src/b.py", "tests/test_d.py") == [
        *(Choice(each, selected=False, why=nothing) for each in (a, b, c)),
        never,
    ]
    assert chosen("src/a/deep/x.py") == [
        Choice(a, selected=True, why="src/a/deep/x.py has changed"),
        *(Choice(each, selected=False, why=nothing) for each in (b, c)),
        never,
    ]
    # The file is b's; c has one test of it.
    assert chosen("tests/test_b.py") == [
        Choice(a, selected=False, why=nothing),
        Choice(b, selected=True, why="its own tests/test_b.py has changed"),
        Choice(c, selected=False, why=nothing),
        never,
    ]
    assert [each.selected for each in chosen("lock.txt", "src/b/y.py")] == [True, True, True, False]
    assert [each.selected for each in chosen("tests/folder/data.json")] == [False, False, True, False]
    assert [each.selected for each in chosen()] == [False] * 4


def test_an_unknown_change_selects_nothing_and_says_so() -> None:
    (choice,) = select([group("full:a", "tests", when=("*",))], Change(None, "no history"))
    assert choice.selected is False
    assert choice.why == "the change is not known: no history"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("locks/gcc-14-s390x.yaml", "full:cross"),
        ("src/cpuwheels/bisect/search.py", "full:bisect"),
        ("csrc/memgate/gate.c", "soak:kills"),
        ("tests/harness/test_draw.py", "full:parity"),
        ("tests/parity/waivers.toml", "full:parity"),
        ("tests/integration/test_macos.py", "full:macos"),
    ],
)
def test_what_this_projects_files_select(file: str, name: str) -> None:
    choices = select(GROUPS, Change(frozenset([file]), ""))
    assert name in [each.group.name for each in choices if each.selected]
    assert not [each.group.name for each in choices if each.selected and each.group.part in {"core", "wheel"}]
