from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.sandbox.view import SYSTEM, View, follow, interpreter_places, places


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    base = Path(follow(tmp_path)[0])
    for name in ("home/.ssh", "home/python/bin", "home/python/lib/python3.11", "store/a/b", "work"):
        (base / name).mkdir(parents=True)
    (base / "home/python/bin/python3.11").write_text("")
    return base


def seen(view: View) -> dict[str, bool]:
    return places(view, ()).binds


def test_links_are_followed_one_by_one(tree: Path) -> None:
    (tree / "one").symlink_to("home")
    (tree / "two").symlink_to(tree / "one" / "python")
    (tree / "three").symlink_to("two/../python/./bin")
    real, links = follow(tree / "three" / "python3.11")
    assert real == f"{tree}/home/python/bin/python3.11"
    assert links == {f"{tree}/three": "two/../python/./bin", f"{tree}/two": f"{tree}/one/python", f"{tree}/one": "home"}


def test_a_loop_of_links_comes_to_an_end(tree: Path) -> None:
    (tree / "loop").symlink_to("loop")
    assert follow(tree / "loop") == (f"{tree}/loop", {f"{tree}/loop": "loop"})
    assert f"{tree}/loop" in seen(View(tree / "work", (tree / "loop",)))


def test_paths_need_not_be_utf_8(tree: Path) -> None:
    name = b"\xff\xfe".decode(errors="surrogateescape")
    (tree / name).mkdir()
    assert seen(View(tree / "work", (tree / name,)))[f"{tree}/{name}"] is False


def test_what_a_folder_shows_already_has_no_place_of_its_own(tree: Path) -> None:
    view = View(tree / "store/a", (tree / "store", tree / "store/a/b", tree / "home"), (tree / "store/a",))
    assert seen(view) == {
        f"{tree}/home": False,
        f"{tree}/store": False,
        f"{tree}/store/a": True,
        f"{tree}/store/a/b": False,
    }
    assert seen(View(tree / "work", (tree / "store", tree / "store/a"))) == {
        f"{tree}/store": False,
        f"{tree}/work": True,
    }


def test_what_is_named_twice_may_be_written(tree: Path) -> None:
    assert seen(View(tree / "work", (tree / "work",)))[f"{tree}/work"] is True


def test_what_is_missing_is_left_out(tree: Path) -> None:
    assert seen(View(tree / "work", (tree / "absent",))) == {f"{tree}/work": True}


def test_folders_come_before_what_is_in_them_and_links_have_their_place(tree: Path) -> None:
    (tree / "link").symlink_to("store")
    (tree / "store/inner").symlink_to("a")
    assert list(places(View(tree / "store/a/b", (tree / "link/inner",)), ()).ordered()) == [
        (f"{tree}/link", "store"),
        (f"{tree}/store/a", False),
        (f"{tree}/store/inner", "a"),
        (f"{tree}/store/a/b", True),
    ]


def test_a_link_inside_of_what_is_shown_is_there_already(tree: Path) -> None:
    (tree / "store/inner").symlink_to("a")
    assert places(View(tree / "work", (tree / "store", tree / "store/inner")), ()).links == {}


def test_an_interpreter_shows_its_installation_and_nothing_else_of_the_home_folder(tree: Path) -> None:
    venv = tree / "venv" / "bin" / "python"
    venv.parent.mkdir(parents=True)
    venv.symlink_to(tree / "home/python/bin/python3.11")
    view = View(tree / "work", interpreter_places(venv, tree / "home"))
    assert seen(view) == {f"{tree}/home/python": False, f"{tree}/work": True}
    assert places(view, ()).links == {str(venv): f"{tree}/home/python/bin/python3.11"}


@pytest.mark.parametrize("prefix", ["home", "home/.local"])
def test_an_installation_that_is_the_home_folder_is_shown_in_parts(tree: Path, prefix: str) -> None:
    for name in ("bin/python3.11", "lib/python3.11/os.py", "lib/libpython3.11.so.1.0", "lib/secret", "share/keys"):
        (tree / prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / prefix / name).write_text("")
    view = View(tree / "work", interpreter_places(tree / prefix / "bin/python3.11", tree / "home"))
    assert sorted(seen(view)) == sorted(
        [f"{tree}/{prefix}/{name}" for name in ("bin/python3.11", "lib/python3.11", "lib/libpython3.11.so.1.0")]
        + [f"{tree}/work"]
    )


def test_the_systems_interpreter_needs_no_more_than_the_system(tree: Path) -> None:
    assert interpreter_places(Path("/usr/bin/env"), tree)[0] == Path("/usr/bin/env")
    assert Path("/usr") not in interpreter_places(Path("/usr/bin/env"), tree)


def test_nothing_of_the_system_holds_what_users_keep() -> None:
    private = [Path(name) for name in ("/", "/etc", "/home", "/root", "/var", "/run", "/tmp", "/proc", "/sys", "/dev")]
    assert not set(private) & set(SYSTEM)
    for folder in ("/home", "/root", "/var", "/run"):
        assert not [path for path in SYSTEM if path.is_relative_to(folder)]
