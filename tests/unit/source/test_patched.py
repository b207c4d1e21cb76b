from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from contexts import build_context
from cpuwheels.config.patch_series import Patch, load_series
from cpuwheels.core.digests import tree_digest
from cpuwheels.core.errors import PatchError
from cpuwheels.core.sealed_entry import MANIFEST, check_entry
from cpuwheels.source.patched import prepare_source
from cpuwheels.source.result import Source
from sample_source import CPUINFO, EPOCH, write_tree

if TYPE_CHECKING:
    import io
    from pathlib import Path

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store

TEXT = """\
--- a/setup.py
+++ b/setup.py
@@ -1,1 +1,1 @@
-old
+new
"""


@pytest.fixture
def source(tmp_path: Path) -> Source:
    folder = write_tree(tmp_path / "source", {"setup.py": "old\n"})
    (folder / MANIFEST).write_text("{}")
    (folder / "link").symlink_to("setup.py")
    return Source("0.32.0", folder, "digest", EPOCH, "origin", "release")


@pytest.fixture
def patches(tmp_path: Path) -> Path:
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches" / "0001-a.patch").write_text(TEXT)
    return tmp_path / "patches"


@pytest.fixture
def context(tmp_path: Path, store: Store, reporter: Reporter, patches: Path) -> BuildContext:
    """A run of a project that has one patch."""
    return build_context(tmp_path, root=patches.parent, store=store, reporter=reporter)


def patch(name: str = "0001-a.patch") -> Patch:
    return Patch(file=name, versions=">=0", why="w", upstream="none")


def fixing(name: str, *faults: str) -> Patch:
    return patch(name).model_copy(update={"fixes": faults})


def test_only_the_stores_own_manifest_is_left_out(context: BuildContext, source: Source) -> None:
    (source.folder / "vllm" / MANIFEST).write_text("the source's own")
    folder = prepare_source(context, source, [patch()]).folder
    assert (folder / "vllm" / MANIFEST).read_text() == "the source's own"
    assert (folder / MANIFEST).read_text() != "{}"
    assert check_entry(folder) == []


def test_patched_beside_a_source_that_stays_as_it_is(context: BuildContext, source: Source, story: io.StringIO) -> None:
    before = tree_digest(source.folder)
    prepared = prepare_source(context, source, [patch()])
    assert (prepared.folder / "setup.py").read_text() == "new\n"
    assert (prepared.folder / "link").is_symlink()
    assert tree_digest(source.folder) == before
    assert (prepared.version, prepared.epoch) == ("0.32.0", EPOCH)
    assert [applied.state for applied in prepared.patches] == ["applied"]
    assert "0001-a.patch: applied" in story.getvalue()
    assert prepare_source(context, source, [patch()]) == prepared


def test_what_became_of_a_patch_is_remembered(context: BuildContext, source: Source) -> None:
    (source.folder / "setup.py").write_text("new\n")
    for _ in range(2):
        prepared = prepare_source(context, source, [patch()])
        assert [applied.state for applied in prepared.patches] == ["upstream"]


def test_a_changed_patch_is_another_source(context: BuildContext, source: Source, patches: Path) -> None:
    first = prepare_source(context, source, [patch()])
    (patches / "0001-a.patch").write_text(TEXT.replace("+new", "+newer"))
    second = prepare_source(context, source, [patch()])
    bare = prepare_source(context, source, [])
    texts = [(found.folder / "setup.py").read_text() for found in (first, second, bare)]
    assert texts == ["new\n", "newer\n", "old\n"]


def test_faults_that_are_fixed_and_those_that_stay_are_told(
    context: BuildContext, source: Source, story: io.StringIO, patches: Path
) -> None:
    (patches / "0002-b.patch").write_text(TEXT.replace("-old", "-not there").replace("+new", "+other"))
    series = [fixing("0001-a.patch", "One fault", "Another"), fixing("0002-b.patch", "A third")]
    for _ in range(2):  # the second time from the store
        assert prepare_source(context, source, series).fixed_faults == {"One fault", "Another"}
    assert "2 faults of upstream's kernels are fixed by 1 patches" in story.getvalue()
    assert "NOTE patch 0002-b.patch does not apply; these kernels have: A third" in story.getvalue()
    with pytest.raises(PatchError, match=r"0002-b\.patch does not apply"):
        prepare_source(context, replace(source, released=True, digest="a release"), series)


def test_what_a_patch_fixes_is_what_the_series_says_now(context: BuildContext, source: Source) -> None:
    kept = [prepare_source(context, source, [fixing("0001-a.patch", fault)]) for fault in ("A fault", "Its new name")]
    assert [prepared.fixed_faults for prepared in kept] == [{"A fault"}, {"Its new name"}]
    assert kept[0].folder == kept[1].folder


def test_a_failing_patch_leaves_nothing(context: BuildContext, source: Source, store: Store) -> None:
    (source.folder / "setup.py").write_text("something else\n")
    with pytest.raises(PatchError, match=r"0001-a\.patch does not apply to setup\.py"):
        prepare_source(context, source, [patch()])
    assert list((store.root / "prepared").iterdir()) == []


def test_a_missing_patch_is_named(context: BuildContext, source: Source) -> None:
    with pytest.raises(PatchError, match=r"0009-gone\.patch cannot be read"):
        prepare_source(context, source, [patch("0009-gone.patch")])


def test_the_projects_own_patches_apply(context: BuildContext, project_root: Path, source: Source) -> None:
    series = [patch for patch in load_series(project_root).patches if patch.is_for("0.32.0", "x86")]
    assert series
    prepared = prepare_source(replace(context, paths=replace(context.paths, root=project_root)), source, series)
    # What the stand-in has not got at all, nothing is done about.
    of_kernels = {patch.file for patch in series if patch.fixes or patch.speeds}
    assert {one.state for one in prepared.patches if one.file not in of_kernels} == {"applied", "not needed"}
    assert "init_amx" in (prepared.folder / "csrc/cpu/torch_bindings.cpp").read_text()
    text = (prepared.folder / "cmake" / "cpu_extension.cmake").read_text()
    assert CPUINFO not in text
    assert "CPUWHEELS_CPUINFO" in text
