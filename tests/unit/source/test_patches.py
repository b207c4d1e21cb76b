from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpuwheels.config.patch_series import Lacks, Patch
from cpuwheels.core.errors import PatchError
from cpuwheels.source.patches import LEFT_OUT, AppliedPatch, Hunk, apply_series, fixed_faults, judge, read_hunks

PATCH = """--- a/file.txt
+++ b/file.txt
@@ -2,1 +2,1 @@
-old
+new
"""


def patch(
    name: str = "0001-a.patch", versions: str = ">=1", only_if_lacks: Lacks | None = None, fixes: tuple[str, ...] = ()
) -> Patch:
    about = {"why": "test", "upstream": "none: test"}
    return Patch(file=name, versions=versions, only_if_lacks=only_if_lacks, fixes=fixes, **about)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file.txt").write_text("a\nold\nb\n")
    (tmp_path / "0001-a.patch").write_text(PATCH)
    return tmp_path / "tree"


def test_a_commit_may_do_without_a_patch_that_is_for_speed(tree: Path) -> None:
    (tree / "file.txt").write_text("something else\n")
    fast = patch().model_copy(update={"speeds": ("rms_norm",)})
    (left,) = apply_series([fast], tree.parent, tree, released=False)
    assert (left.state, fixed_faults([left])) == (LEFT_OUT, frozenset())
    with pytest.raises(PatchError, match=r"0001-a\.patch"):
        apply_series([fast], tree.parent, tree, released=True)


def test_a_commit_may_do_without_a_patch_that_fixes_a_fault(tree: Path) -> None:
    (tree / "file.txt").write_text("something else\n")
    (left,) = apply_series([patch(fixes=("A fault",))], tree.parent, tree, released=False)
    assert (left.state, left.fixes, fixed_faults([left])) == (LEFT_OUT, ("A fault",), frozenset())
    other = AppliedPatch("0002-b.patch", "", "applied", ("A fault", "Another"))
    assert fixed_faults([left, other]) == {"Another"}  # of two patches for one fault, one is not enough
    assert (tree / "file.txt").read_text() == "something else\n"


def test_no_half_of_a_patch_is_applied(tree: Path) -> None:
    (tree.parent / "0001-a.patch").write_text(PATCH + "@@ -9,1 +9,1 @@\n-not there\n+other\n")
    apply_series([patch(fixes=("A fault",))], tree.parent, tree, released=False)
    assert (tree / "file.txt").read_text() == "a\nold\nb\n"


@pytest.mark.parametrize(("fixes", "released"), [((), False), (("A fault",), True)], ids=["needed", "a release"])
def test_no_other_patch_is_left_out(tree: Path, fixes: tuple[str, ...], *, released: bool) -> None:
    (tree / "file.txt").write_text("something else\n")
    with pytest.raises(PatchError, match="its old lines are not there"):
        apply_series([patch(fixes=fixes)], tree.parent, tree, released=released)


def test_a_fault_is_fixed_by_us_or_upstream(tree: Path) -> None:
    for state in ("applied", "upstream"):
        (done,) = apply_series([patch(fixes=("A fault",))], tree.parent, tree)
        assert (done.state, fixed_faults([done])) == (state, {"A fault"})


def test_applies_once_and_is_then_recognised(tree: Path) -> None:
    assert apply_series([patch()], tree.parent, tree)[0].state == "applied"
    assert (tree / "file.txt").read_text() == "a\nnew\nb\n"
    assert apply_series([patch()], tree.parent, tree)[0].state == "upstream"
    assert (tree / "file.txt").read_text() == "a\nnew\nb\n"


def test_line_numbers_do_not_matter_but_letters_do(tree: Path) -> None:
    (tree / "file.txt").write_text("x\n" * 50 + "old\n")
    assert apply_series([patch()], tree.parent, tree)[0].state == "applied"
    (tree / "file.txt").write_text("a\n old\nb\n")
    with pytest.raises(PatchError, match="old lines are not there") as raised:
        apply_series([patch()], tree.parent, tree)
    assert "@@ -2,1 +2,1 @@" in str(raised.value)
    assert "-old" in str(raised.value)
    assert "0001-a.patch" in str(raised.value)


def test_a_patch_for_sources_that_lack_a_text_leaves_the_others_alone(tree: Path) -> None:
    conditional = patch(only_if_lacks=Lacks(file="other.txt", text="argument"))
    assert apply_series([conditional], tree.parent, tree)[0].state == "not needed"  # there is no such file
    (tree / "other.txt").write_text("an argument\n")
    assert apply_series([conditional], tree.parent, tree)[0].state == "not needed"
    assert (tree / "file.txt").read_text() == "a\nold\nb\n"
    (tree / "other.txt").write_text("none\n")
    assert apply_series([conditional], tree.parent, tree)[0].state == "applied"
    assert (tree / "file.txt").read_text() == "a\nnew\nb\n"


def test_two_places_are_refused(tree: Path) -> None:
    (tree / "file.txt").write_text("old\nold\n")
    with pytest.raises(PatchError, match="more than once"):
        apply_series([patch()], tree.parent, tree)


def test_a_failing_hunk_leaves_the_file_as_it_was(tree: Path) -> None:
    (tree.parent / "0001-a.patch").write_text(PATCH + "@@ -9,1 +9,1 @@\n-gone\n+there\n")
    with pytest.raises(PatchError):
        apply_series([patch()], tree.parent, tree)
    assert (tree / "file.txt").read_text() == "a\nold\nb\n"


def test_mode_is_kept(tree: Path) -> None:
    (tree / "file.txt").chmod(0o755)
    apply_series([patch()], tree.parent, tree)
    assert (tree / "file.txt").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "changes nothing"),
        ("--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n-x\n", "not a unified diff"),
        ("--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+x\n", "does not modify an existing file"),
        ("--- a/../f\n+++ b/../f\n@@ -1,1 +1,1 @@\n-x\n+y\n", "does not modify an existing file"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "p.patch").write_text(content)
    with pytest.raises(PatchError, match=message):
        read_hunks(tmp_path / "p.patch")


def test_missing_patch_and_missing_target_are_named(tree: Path) -> None:
    with pytest.raises(PatchError, match=r"0002-b\.patch cannot be read"):
        apply_series([patch("0002-b.patch")], tree.parent, tree)
    (tree / "file.txt").unlink()
    with pytest.raises(PatchError, match=r"changes file\.txt, which the source does not have"):
        apply_series([patch()], tree.parent, tree)


def test_pure_addition_is_recognised() -> None:
    hunk = Hunk("f", "@@", old="a\n", new="a\nb\n")
    assert judge(hunk, "a\nc\n") == "applies"
    assert judge(hunk, "a\nb\nc\n") == "upstream"


def test_a_line_is_never_matched_in_its_middle() -> None:
    assert judge(Hunk("f", "@@", old="old\n", new="new\n"), "very old\n") == "missing"


def test_nothing_in_a_line_is_special() -> None:
    hunk = Hunk("f", "@@", old="a.*(b\n", new="c\n")
    assert judge(hunk, "a.*(b\n") == "applies"
    assert judge(hunk, "aXX(b\n") == "missing"
    assert judge(hunk, "a.*(b\nc\na.*(b\n") == "ambiguous"


def test_lines_that_overlap_are_ambiguous() -> None:
    assert judge(Hunk("f", "@@", old="a\na\n", new="b\n"), "a\na\na\n") == "ambiguous"


LINES = st.lists(st.sampled_from(["a", "b", "c", "old"]), max_size=8)


@given(LINES, LINES)
def test_judging_and_replacing_agree(before: list[str], after: list[str]) -> None:
    text = "".join(f"{line}\n" for line in [*before, "target", *after])
    hunk = Hunk("f", "@@", old="target\n", new="changed\n")
    assert judge(hunk, text) == "applies"
    changed = text.replace(hunk.old, hunk.new)
    assert judge(hunk, changed) == "upstream"


@pytest.mark.parametrize(
    ("version", "applies"),
    [("0.28.0", True), ("0.32.0", True), ("0.32.1.dev5+gabc", True), ("0.33.0", False), ("0.27.9", False)],
)
def test_version_ranges(version: str, applies: bool) -> None:
    assert patch(versions=">=0.28,<0.33").is_for(version, "x86") is applies


def test_targets_restrict_a_patch() -> None:
    only = patch().model_copy(update={"targets": ("s390x",)})
    assert only.is_for("1.0", "s390x")
    assert not only.is_for("1.0", "x86")
