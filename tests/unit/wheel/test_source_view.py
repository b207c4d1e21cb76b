"""What setup.py is shown of a source is what its key names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.digests import tree_names
from cpuwheels.wheel import source_view
from cpuwheels.wheel.source_view import SourceView, view_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = (
    "setup.py",
    "README.md",
    "requirements/build/cuda.txt",
    "tools/build_rust.py",
    "tools/deep/other.py",
    "vllm.egg-info/SOURCES.txt",
    "vllm/__init__.py",
    "vllm/envs.py",
    "vllm/_version.py",
    "vllm/models/envs.py",
    "csrc/a.cpp",
)
SHOWN = set(FILES) - {"tools/deep/other.py", "vllm/__init__.py", "vllm/models/envs.py", "csrc/a.cpp"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_text(f"content of {name}")
    (tmp_path / "source/csrc/a.cpp").chmod(0o755)
    return tmp_path / "source"


def view(source: Path, *, whole: bool = False) -> SourceView:
    return view_of(source, tree_names(source), whole=whole)


def test_all_names_are_there_and_the_content_of_those_that_count(source: Path, tmp_path: Path) -> None:
    shown = view(source)
    shown.lay(tmp_path / "copy")
    assert tree_names(tmp_path / "copy") == sorted(FILES)
    for name in FILES:
        text = (tmp_path / "copy" / name).read_text()
        assert text == (f"content of {name}" if name in SHOWN else "")
        assert shown.is_emptied(name) == (name not in SHOWN)
    assert (tmp_path / "copy/csrc/a.cpp").stat().st_mode & 0o100
    assert not (tmp_path / "copy/vllm/__init__.py").stat().st_mode & 0o100
    assert not shown.is_whole
    assert not shown.is_emptied("absent")
    assert not shown.is_file("absent")


def test_the_whole_is_all_of_it(source: Path, tmp_path: Path) -> None:
    whole = view(source, whole=True)
    whole.lay(tmp_path / "copy")
    assert {name: (tmp_path / "copy" / name).read_text() for name in FILES} == {n: f"content of {n}" for n in FILES}
    assert whole.is_whole
    assert whole.key() != view(source).key()


def test_nothing_in_the_view_is_a_file_of_the_source(source: Path, tmp_path: Path) -> None:
    for number, whole in enumerate([False, True]):
        copy = tmp_path / f"copy{number}"
        view(source, whole=whole).lay(copy)
        for name in FILES:
            (copy / name).write_text("damaged")
    assert {(source / name).read_text() for name in FILES} == {f"content of {name}" for name in FILES}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("whole", [False, True])
def test_the_key_names_the_content_of_what_is_shown(source: Path, name: str, whole: bool) -> None:
    before = view(source, whole=whole).key()
    (source / name).write_text("other")
    assert (view(source, whole=whole).key() != before) == (whole or name in SHOWN)


def more(source: Path) -> None:
    (source / "vllm/more.py").write_text("")


def fewer(source: Path) -> None:
    (source / "vllm/__init__.py").unlink()


def renamed(source: Path) -> None:
    (source / "vllm/__init__.py").rename(source / "vllm/__main__.py")


def executable(source: Path) -> None:
    (source / "vllm/__init__.py").chmod(0o755)


def a_link(source: Path) -> None:
    (source / "vllm/__init__.py").unlink()
    (source / "vllm/__init__.py").symlink_to("envs.py")


@pytest.mark.parametrize("change", [more, fewer, renamed, executable, a_link])
def test_the_key_names_all_names_and_kinds(source: Path, change: Callable[[Path], None]) -> None:
    before = view(source).key()
    change(source)
    assert view(source).key() != before


def test_a_name_cannot_pass_for_two(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "a").symlink_to("x\nb")
    (two / "a").symlink_to("x")
    (two / "b").symlink_to("x")
    assert view(one).key() != view(two).key()


def test_what_a_link_shows_counts(source: Path, tmp_path: Path) -> None:
    (source / "README").symlink_to("csrc/a.cpp")
    linked = view(source)
    assert "csrc/a.cpp" in linked.shown
    assert linked.outside is None
    linked.lay(tmp_path / "copy")
    assert (tmp_path / "copy/README").read_text() == "content of csrc/a.cpp"
    before = linked.key()
    (source / "csrc/a.cpp").write_text("other")
    assert view(source).key() != before


def test_a_link_to_a_folder_shows_everything(source: Path) -> None:
    (source / "more").symlink_to("csrc")
    assert view(source).is_whole
    assert view(source).outside is None


@pytest.mark.parametrize("target", ["/etc/passwd", "../elsewhere", "nowhere", "more"])
def test_a_link_out_of_the_source_is_told(source: Path, target: str) -> None:
    (source / "more").symlink_to(target)
    assert view(source).is_whole
    assert view(source).outside == "more"


def test_as_many_empty_files_as_one_may_have_names(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(31, "Too many links")

    monkeypatch.setattr("os.link", refused)
    view(source).lay(tmp_path / "copy")
    assert tree_names(tmp_path / "copy") == sorted(FILES)


def test_the_rule_shows_what_setup_of_real_releases_reads() -> None:
    read = (
        "LICENSE MANIFEST.in README.md pyproject.toml requirements/common.txt requirements/cpu.txt setup.cfg setup.py "
        "tools/build_rust.py vllm.egg-info/PKG-INFO vllm.egg-info/SOURCES.txt vllm.egg-info/entry_points.txt "
        "vllm/envs.py"
    )  # noted by the probe for 0.32.0 and 0.33.0
    assert all(source_view.SHOWN.fullmatch(name) for name in read.split())
    assert not any(
        source_view.SHOWN.fullmatch(name) for name in ("vllm/__init__.py", "csrc/a.h", "tests/x.py", "vllm/a/envs.py")
    )
