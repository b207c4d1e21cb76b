"""The context of a run, for another target of the same run."""

from pathlib import Path

from contexts import build_context
from cpuwheels.config.options import BuildOptions


def test_another_target_of_the_run_has_the_same_options_but_the_compilers(tmp_path: Path) -> None:
    context = build_context(tmp_path, options=BuildOptions(memory="8G", toolchain="host"))
    other = context.for_target(context.matrix.target("arm"), "debian")
    assert (other.target.id, other.options) == ("arm", BuildOptions(memory="8G", toolchain="debian"))
    assert (other.paths, other.store, other.reporter, other.logs) == (
        context.paths,
        context.store,
        context.reporter,
        context.logs,
    )
    assert (context.target.id, context.options.toolchain) == ("x86", "host")


def test_locks_are_the_projects(tmp_path: Path) -> None:
    context = build_context(tmp_path / "stores", root=tmp_path / "project")
    assert context.lock("parity.txt") == tmp_path / "project" / "locks" / "parity.txt"
    assert context.root == tmp_path / "project"
