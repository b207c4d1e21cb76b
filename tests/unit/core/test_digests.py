from pathlib import Path

import pytest

from cpuwheels.core.digests import KEY_LENGTH, make_key, tree_digest, tree_files, tree_names


def test_key_does_not_depend_on_the_order_of_inputs() -> None:
    assert make_key(a=1, b=[2]) == make_key(b=[2], a=1)
    assert len(make_key(a=1)) == KEY_LENGTH


@pytest.mark.parametrize("other", [{"a": 2}, {"b": 1}, {"a": "1"}, {"a": [1]}, {"a": None}])
def test_any_other_input_gives_another_key(other: dict[str, object]) -> None:
    assert make_key(a=1) != make_key(**other)


def test_sets_have_no_order() -> None:
    assert make_key(a={"x", "y"}) == make_key(a={"y", "x"})


def test_an_object_without_a_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object cannot be part of a key"):
        make_key(a=object())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "a.cpp").write_text("a")
    (tmp_path / "setup.py").write_text("s")
    (tmp_path / "link").symlink_to("setup.py")
    return tmp_path


def test_tree_digest_sees_content_names_modes_and_links(tree: Path) -> None:
    seen = {tree_digest(tree)}
    (tree / "csrc" / "a.cpp").write_text("b")
    seen.add(tree_digest(tree))
    (tree / "csrc" / "a.cpp").rename(tree / "csrc" / "b.cpp")
    seen.add(tree_digest(tree))
    (tree / "setup.py").chmod(0o755)
    seen.add(tree_digest(tree))
    (tree / "link").unlink()
    (tree / "link").symlink_to("csrc")
    seen.add(tree_digest(tree))
    assert len(seen) == 5


def test_executable_is_what_its_owner_may_run_as_in_git(tree: Path) -> None:
    before = tree_digest(tree)
    (tree / "setup.py").chmod(0o744)
    assert tree_digest(tree) != before


def test_tree_digest_of_parts_ignores_the_rest(tree: Path) -> None:
    before = tree_digest(tree, ["csrc", "not-there"])
    (tree / "setup.py").write_text("changed")
    assert tree_digest(tree, ["csrc", "not-there"]) == before


def test_every_file_and_link_is_listed_and_links_are_not_followed(tree: Path) -> None:
    (tree / "loop").symlink_to(tree, target_is_directory=True)
    (tree / "gone").symlink_to("nowhere")
    (tree / "deep/er").mkdir(parents=True)
    (tree / "deep/er/z").write_text("")
    (tree / "deep.txt").write_text("")
    names = tree_names(tree)
    assert names == sorted(names)
    assert {"loop", "gone", "deep/er/z", "deep.txt"} <= set(names)
    assert not any(name.startswith("loop/") for name in names)
    assert tree_files(tree) == [tree / name for name in names]
    assert tree_names(tree / "absent") == []
