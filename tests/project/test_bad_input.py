"""Every kind of bad input ends at once, in one message with what, where and the next step, and its own code."""

from __future__ import annotations

import io
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpuwheels.core import errors
from fake_compiler import Fake
from loopback import DEAD, Answer, Server
from offline_project import Project, offline_project
from sample_source import CPUINFO, sha256, write_sdist, write_tree
from small_wheels import write_wheel

if TYPE_CHECKING:
    from cpuwheels.core.errors import CpuwheelsError

A = "a" * 64

__all__ = ["offline_project"]


@pytest.mark.parametrize(
    ("expected", "arguments", "words"),
    [
        (errors.UnknownTargetError, ["x68"], ["unknown target 'x68'", "did you mean 'x86'?", "s390x"]),
        (errors.UsageError, ["macos", "--debug-symbols"], ["target 'macos' are linked without debug symbols"]),
        (errors.SourceError, ["x86", "--source", "0.32.x"], ["'0.32.x' is neither a version nor a folder"]),
        (errors.SourceError, ["x86", "--source", "0.32.0+cpu"], ["has a local part", "use 0.32.0"]),
        (errors.SourceError, ["x86", "--source", "0.27.1"], ["vLLM 0.27.1 is not pinned", "--sha256", "0.31.0"]),
        (errors.SourceError, ["x86", "--source", "0.27.1", "--sha256", "xyz"], ["'xyz' is not a sha256"]),
        (errors.SourceError, ["x86", "--sha256", A], [f"--sha256 {A} is not what matrix.yaml pins"]),
        (errors.SourceError, ["x86", "--source", "./gone"], ["no folder", "gone"]),
        (errors.UnsuitableSourceError, ["x86", "--source", "."], ["is not a vLLM source tree", "setup.py"]),
        (errors.UsageError, ["x86", "--memory", "plenty"], ["--memory: 'plenty' is not a size such as 8G"]),
        (errors.UsageError, ["x86", "--memory", "0G"], ["is not above zero"]),
        (errors.MemoryCapError, ["x86", "--memory", "512K"], ["512 KiB is below the 1 MiB", "at least 1 MiB"]),
        (errors.UsageError, ["x86", "--jobs", "0"], ["--jobs: '0' is not a whole number of at least 1"]),
        (errors.UsageError, ["x86", "--jobs", "many"], ["--jobs: 'many' is not"]),
    ],
)
def test_what_is_asked_for(
    project: Project, expected: type[CpuwheelsError], arguments: list[str], words: list[str]
) -> None:
    message = project.fails(expected, "build", *arguments)
    for word in words:
        assert word in message
    assert not project.cache.exists()
    assert not project.dist.exists()


@pytest.mark.parametrize(
    ("expected", "arguments", "words"),
    [
        (errors.UnknownTargetError, ["x68", "--wheel", "a.whl"], ["unknown target 'x68'"]),
        (errors.UsageError, ["x86", "x86"], ["a target is given twice"]),
        (
            errors.UsageError,
            ["x86", "--wheel", "a.whl", "--wheel", "b.whl"],
            ["the number of wheels is 2, and of targets 1"],
        ),
        (errors.UsageError, ["x86", "--push", "vllm:1"], ["vllm:1 names no registry", "--push"]),
        (errors.UnusableWheelError, ["x86"], ["there is no wheel for target x86"]),
        (errors.ImageError, ["macos", "--wheel", "a.whl"], ["no image is described for target macos", "x86"]),
    ],
)
def test_what_an_image_is_asked_for(
    project: Project, expected: type[CpuwheelsError], arguments: list[str], words: list[str]
) -> None:
    message = project.fails(expected, "image", *arguments)
    for word in words:
        assert word in message


def test_max_jobs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_JOBS", "x")
    assert "MAX_JOBS is 'x'" in project.fails(errors.UsageError, "build", "x86")


def test_a_planned_target(project: Project) -> None:
    path = project.root / "matrix.yaml"
    path.write_text(path.read_text().replace("status: ready", "status: planned", 1))
    message = project.fails(errors.TargetNotBuiltError, "build", "x86")
    assert "target 'x86'" in message
    assert "planned but cannot be built yet" in message
    assert "ready now: arm" in message


def test_a_lock_that_is_not_there(project: Project) -> None:
    path = project.root / "matrix.yaml"
    path.write_text(path.read_text().replace("toolchain: gcc-14-arm64", "toolchain: gcc-14-gone"))
    message = project.fails(errors.MatrixError, "build", "arm")
    assert "gcc-14-gone.yaml" in message


def test_another_machine(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    message = project.fails(errors.TargetNotBuiltError, "build", "x86")
    assert "is built on Linux x86_64; this is Linux aarch64" in message


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("floor: manylinux_2_28", "flor: manylinux_2_28", ["unknown key 'targets.0.flor'", "did you mean 'floor'?"]),
        ("status: ready", "status: redy", ["'ready' or 'planned', got 'redy'"]),
        ("targets:", "targets: [", ["is not valid YAML"]),
    ],
)
def test_the_matrix(project: Project, old: str, new: str, words: list[str]) -> None:
    path = project.root / "matrix.yaml"
    path.write_text(path.read_text().replace(old, new, 1))
    message = project.fails(errors.MatrixError, "build", "x86")
    assert f"{path}:" in message
    for word in words:
        assert word in message


def test_no_matrix(project: Project) -> None:
    (project.root / "matrix.yaml").unlink()
    assert "cannot read matrix.yaml" in project.fails(errors.MatrixError, "build", "x86")


def test_a_compiler_that_is_too_old(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    Fake(version="12.2.0").write(tmp_path / "bin", "g++")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    monkeypatch.setattr("os.defpath", "")
    for tool in ("cat", "sh"):
        (tmp_path / "bin" / tool).symlink_to(f"/bin/{tool}")
    message = project.fails(errors.ToolchainError, "build", "x86", "--toolchain", "host")
    assert "12.2" in message
    assert "needs GNU 15 or newer" in message
    assert not project.cache.exists()


@pytest.mark.parametrize("kind", ["file in its place", "below a file", "kernel's own"])
@pytest.mark.parametrize("which", ["cache", "dist"])
def test_a_folder_that_cannot_be_written(project: Project, tmp_path: Path, which: str, kind: str) -> None:
    (tmp_path / "file").write_text("")
    places = {
        "file in its place": tmp_path / "file",
        "below a file": tmp_path / "file" / "x",
        "kernel's own": Path("/proc/x"),
    }
    message = project.fails(errors.StoreError, "build", "x86", **{which: places[kind]})
    assert "cannot use" in message
    assert str(places[kind]) in message
    assert {"cache": "CPUWHEELS_CACHE", "dist": "--dist"}[which] in message


@pytest.mark.parametrize("moment", ["fetching", "logging"])
def test_a_full_disk(project: Project, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    project.serve(project.write_sdist().as_uri())

    def full(*_: object, **__: object) -> None:
        with open("/dev/full", "wb", buffering=0) as stream:  # noqa: PTH123  (what the system says of a full disk)
            stream.write(b"x")

    monkeypatch.setattr(*{"fetching": ("os.fsync", full), "logging": ("pathlib.Path.mkdir", full)}[moment])
    message = project.fails(errors.DiskFullError, "build", "x86", "--source", "0.32.0")
    assert "no space left" in message
    assert "free space" in message
    assert not project.dist.joinpath("x86").exists()


def test_no_network(project: Project) -> None:
    message = project.fails(errors.DownloadError, "build", "x86", "--source", "0.32.0")
    assert "cannot fetch vllm 0.32.0 sdist" in message
    assert f"{DEAD}/vllm.tar.gz: no connection" in message
    assert "check the network" in message


def test_no_network_for_a_version_that_is_looked_up(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPUWHEELS_PYPI_INDEX", f"{DEAD}/simple")
    message = project.fails(errors.DownloadError, "build", "x86", "--source", "0.27.1", "--sha256", A)
    assert "cannot read the package index" in message


def test_another_digest(project: Project) -> None:
    project.serve(project.write_sdist().as_uri(), digest=A)
    message = project.fails(errors.DigestMismatchError, "build", "x86", "--source", "0.32.0")
    assert A in message
    assert sha256(project.root / "served" / "vllm-0.32.0.tar.gz") in message


@pytest.mark.parametrize("announced", [True, False], ids=["cut off", "short"])
def test_a_truncated_download(project: Project, server: Server, announced: bool) -> None:
    whole = project.write_sdist().read_bytes()
    answer = Answer(whole[:100], announced=len(whole) if announced else None)
    project.serve(server.serve("/vllm-0.32.0.tar.gz", answer))
    message = project.fails(errors.DownloadError, "build", "x86", "--source", "0.32.0")
    assert "/vllm-0.32.0.tar.gz: " in message
    assert not list(project.cache.glob("downloads/*"))


def test_a_patch_that_fails(project: Project) -> None:
    project.serve(project.write_sdist(cmake__cpu_extension_DOT_cmake="# written anew upstream\n").as_uri())
    message = project.fails(errors.PatchError, "build", "x86", "--source", "0.32.0")
    assert "0001-cpuinfo-from-the-build.patch does not apply to cmake/cpu_extension.cmake" in message
    assert "its old lines are not there" in message
    assert f"-{CPUINFO.splitlines()[0]}" in message
    assert "@@ " in message


def test_a_patch_that_is_not_there(project: Project) -> None:
    (project.root / "patches" / "0001-cpuinfo-from-the-build.patch").unlink()
    project.serve(project.write_sdist().as_uri())
    message = project.fails(errors.PatchError, "build", "x86", "--source", "0.32.0")
    assert "0001-cpuinfo-from-the-build.patch cannot be read" in message


def test_a_torch_that_the_matrix_does_not_know(project: Project) -> None:
    project.serve(project.write_sdist(requirements__cpu_DOT_txt="torch==2.99.0\n").as_uri())
    message = project.fails(errors.LockedError, "build", "x86", "--upstream-kernels", "--source", "0.32.0", "--locked")
    assert "torch 2.99.0, which matrix.yaml does not pin" in message
    assert "requirements/cpu.txt of the source" in message
    assert "2.13.0" in message


def test_a_source_without_onednn(project: Project) -> None:
    project.serve(project.write_sdist(cmake__cpu_extension_DOT_cmake=CPUINFO).as_uri())
    message = project.fails(errors.OneDnnError, "build", "x86", "--upstream-kernels", "--source", "0.32.0")
    assert "the source names no oneDNN for x86_64" in message


def test_an_unsafe_archive(project: Project) -> None:
    path = project.root / "served" / "vllm-0.32.0.tar.gz"
    write_sdist(path, changes={"../../evil": "x"})
    project.serve(path.as_uri())
    message = project.fails(errors.UnsafeArchiveError, "build", "x86", "--source", "0.32.0")
    assert "evil" in message
    assert not list(project.root.parent.rglob("evil"))


def test_an_archive_of_another_version(project: Project) -> None:
    path = write_sdist(project.root / "served" / "vllm-0.32.0.tar.gz", "0.31.0")
    project.serve(path.as_uri())
    message = project.fails(errors.SourceError, "build", "x86", "--source", "0.32.0")
    assert "the archive is 0.31.0, not vllm 0.32.0" in message


def test_a_local_tree_without_a_version(project: Project, tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "vllm")
    message = project.fails(errors.SourceError, "build", "x86", "--source", str(folder))
    assert "cannot tell the version" in message


def test_ctrl_c(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.serve(project.write_sdist().as_uri())

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    code, told = project.run("build", "x86", "--source", "0.32.0")
    assert code == 130
    assert "stopped" in told
    assert not list(project.cache.glob("*/.new-*"))


@pytest.mark.parametrize(
    ("write", "words"),
    [(lambda _: None, "is not there"), (lambda path: path.write_text("x"), "is not a wheel")],
    ids=["not there", "not a zip"],
)
def test_what_is_to_be_checked_is_no_wheel(project: Project, tmp_path: Path, write, words: str) -> None:
    write(tmp_path / "a.whl")
    assert words in project.fails(errors.UnusableWheelError, "parity", "x86", "--wheel", str(tmp_path / "a.whl"))


@pytest.mark.parametrize("command", ["parity", "kernel-bench"])
def test_an_operator_that_no_library_has_is_refused_before_anything_is_made(
    project: Project, tmp_path: Path, command: str
) -> None:
    library = {"vllm/_C.abi3.so": "\0rms_norm(Tensor! out, Tensor input) -> ()\0"}
    tag = "cp38-abi3-manylinux_2_28_x86_64"
    one, other = (
        write_wheel(tmp_path / name, "vllm", "0.32.0", library | {"name": name}, "torch==2.13.0", tag=tag)
        for name in ("one", "other")
    )
    against = ["--against", str(other), "--library", "_C"] if command == "kernel-bench" else []
    words = [command, "x86", "--wheel", str(one), *against, "--operator", "rms_nrom"]
    assert "did you mean rms_norm?" in project.fails(errors.UsageError, *words)
    assert not project.cache.joinpath("environments").exists()


def test_there_is_nothing_to_check_yet(project: Project) -> None:
    assert "nox -s build-x86" in project.fails(errors.UnusableWheelError, "parity", "x86")


def test_stale_reference_pages(project: Project) -> None:
    (project.root / "README.md").write_text("# no table\n")
    assert "README.md has no place" in project.fails(errors.MatrixError, "schema", "--check")


def test_an_error_of_a_stage_is_under_its_name_in_the_story(project: Project) -> None:
    _, told = project.run("build", "x86", "--source", "0.32.0")
    assert "[x86] source: " in told
    assert "[x86] source stopped after" in told
    assert io.StringIO(told).readline().startswith("[x86] logs: ")
