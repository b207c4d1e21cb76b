"""Each exit code, brought about by what it is the code of.

Most causes are brought about by a whole command with bad input (`by_command`). Where a cause needs a built wheel, hours
or another machine, the step that finds it is run with the input that it refuses, and its error goes through the command
line as any other (`by_step`); each of these says what is real in it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click
import pytest
from filelock import FileLock

import fake_machine
from commit_wheels import wheel as commit_wheel
from cpuwheels.attestation.keys import make_key
from cpuwheels.audit.linux import check_machine, elf_files
from cpuwheels.cli.main import cli, main
from cpuwheels.config.options import BuildOptions
from cpuwheels.config.paths import Paths
from cpuwheels.config.pins import TorchPin
from cpuwheels.config.remedies import error_classes
from cpuwheels.core import errors
from cpuwheels.core.process import run
from cpuwheels.core.step_limits import StepLimit
from cpuwheels.core.store import Store
from cpuwheels.core.tables import Column, Table
from cpuwheels.environment.build_env import EnvironmentRequest, build_environment
from cpuwheels.fetch.debian.release import find_gpgv
from cpuwheels.index.nightly.summary import Outcome as NightlyOutcome
from cpuwheels.index.nightly.summary import Summary
from cpuwheels.kernels.cmake import run_cmake
from cpuwheels.kernels.launchers import Launchers
from cpuwheels.kernels.ninja import explain_failure
from cpuwheels.pipeline.recorded_build import parse_record
from cpuwheels.rebuild.site.folder import LOCK
from cpuwheels.rebuild.site.newest import NewWheel
from cpuwheels.rebuild.site.round import Outcome, require_all
from cpuwheels.sandbox import prepare
from cpuwheels.sandbox.mechanism import Mechanism
from cpuwheels.sandbox.prepare import get_sandbox
from cpuwheels.verification.emulation.cpus import Cpu
from cpuwheels.verification.load.dispatch_check import require_chosen
from cpuwheels.verification.parity.preflight import require_products
from cpuwheels.verification.parity.results import require_parity
from cpuwheels.verification.serving.result import require_served
from cpuwheels.verification.verified import require_reproduced
from elf_writer import Elf
from kernel_request import environment
from loopback import DEAD
from offline_project import Project, offline_project
from sample_results import answered, case, library, parity, serving, verified
from sample_source import CPUINFO, clone_of_two, git, write_sdist
from shared_stores import make_kernels
from small_wheels import write_wheel
from torch_wheels import PYTHON

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpuwheels.config.context import BuildContext
    from cpuwheels.core.errors import CpuwheelsError

__all__ = ["offline_project"]

NINJA = Path(sys.executable).with_name("ninja")
"""The locked one, which kernels are built with."""

PINNED = ("build", "x86", "--source", "0.32.0")


@dataclass
class Scene:
    """Where a cause is brought about."""

    project: Project
    tmp_path: Path
    monkeypatch: pytest.MonkeyPatch
    context: BuildContext

    def run(self, *words: str) -> tuple[object, str]:
        """Return exit code and message of a command."""
        with pytest.raises(SystemExit) as raised:
            main(["--root", str(self.project.root), "--cache", str(self.project.cache), *words])
        return raised.value.code, self.project.capsys.readouterr().err

    def served(self, **changes: str | None) -> None:
        """Serve a source with these changes as that of 0.32.0."""
        self.project.serve(self.project.write_sdist(**changes).as_uri())

    def program(self, script: str) -> Path:
        """Write a shell script that stands for an interpreter."""
        path = self.tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path


COMMANDS: dict[type[CpuwheelsError], Callable[[Scene], tuple[str, ...]]] = {}
STEPS: dict[type[CpuwheelsError], tuple[str, Callable[[Scene], object]]] = {}


def by_command(error: type[CpuwheelsError]) -> Callable[[Callable[[Scene], tuple[str, ...]]], None]:
    """Register what prepares a cause and returns the command that meets it."""

    def register(prepare: Callable[[Scene], tuple[str, ...]]) -> None:
        COMMANDS[error] = prepare

    return register


def by_step(error: type[CpuwheelsError], real: str) -> Callable[[Callable[[Scene], object]], None]:
    """Register a step that meets a cause.

    Args:
        error: Its class.
        real: What in it is real, and what is not.
    """

    def register(step: Callable[[Scene], object]) -> None:
        STEPS[error] = (real, step)

    return register


@pytest.fixture
def scene(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: BuildContext) -> Scene:
    return Scene(project, tmp_path, monkeypatch, context)


@pytest.mark.parametrize("error", COMMANDS, ids=lambda error: error.__name__)
def test_a_command_ends_with_the_code_of_its_cause(scene: Scene, error: type[CpuwheelsError]) -> None:
    code, told = scene.run(*COMMANDS[error](scene))
    assert code == error.exit_code, told
    assert "Traceback" not in told
    assert "error: " in told or error is errors.StoppedError


@pytest.mark.parametrize("error", STEPS, ids=lambda error: error.__name__)
def test_a_step_ends_the_command_with_the_code_of_its_cause(scene: Scene, error: type[CpuwheelsError]) -> None:
    real, step = STEPS[error]
    assert real
    scene.monkeypatch.setitem(cli.commands, "step", click.Command("step", callback=lambda: step(scene)))
    code, told = scene.run("step")
    assert code == error.exit_code, told
    assert "error: " in told


def test_each_kind_of_error_is_brought_about_and_has_its_own_code() -> None:
    assert COMMANDS.keys() | STEPS.keys() == set(error_classes())
    assert not COMMANDS.keys() & STEPS.keys()
    codes = [error.exit_code for error in error_classes()]
    assert len(set(codes)) == len(codes)
    assert not {0, 1} & set(codes), "they answer the question of compare and doctor"


@by_step(errors.CheckoutError, "the files of an installed package, and a command that writes into the project")
def _(scene: Scene) -> None:
    installed = scene.tmp_path / "cpuwheels"
    (installed / "data").mkdir(parents=True)
    (installed / "data" / "matrix.yaml").touch()
    scene.monkeypatch.setattr("cpuwheels.config.paths.PACKAGE", installed)
    Paths(installed / "data", scene.tmp_path, scene.tmp_path).require_checkout("schema")


@by_command(errors.UsageError)
def _(_: Scene) -> tuple[str, ...]:
    return ("build", "x86", "--wat")


@by_command(errors.MatrixError)
def _(scene: Scene) -> tuple[str, ...]:
    (scene.project.root / "matrix.yaml").write_text("targets: [")
    return PINNED


@by_command(errors.UnknownTargetError)
def _(_: Scene) -> tuple[str, ...]:
    return ("build", "x68")


@by_command(errors.TargetNotBuiltError)
def _(scene: Scene) -> tuple[str, ...]:
    path = scene.project.root / "matrix.yaml"
    path.write_text(path.read_text().replace("status: ready", "status: planned", 1))
    return ("build", "x86")


@by_command(errors.SourceError)
def _(_: Scene) -> tuple[str, ...]:
    return ("build", "x86", "--source", "0.32.x")


@by_command(errors.DigestMismatchError)
def _(scene: Scene) -> tuple[str, ...]:
    scene.project.serve(scene.project.write_sdist().as_uri(), digest="a" * 64)
    return PINNED


@by_command(errors.DownloadError)
def _(_: Scene) -> tuple[str, ...]:
    return PINNED


@by_command(errors.UnsafeArchiveError)
def _(scene: Scene) -> tuple[str, ...]:
    path = write_sdist(scene.project.root / "served" / "vllm-0.32.0.tar.gz", changes={"../../evil": "x"})
    scene.project.serve(path.as_uri())
    return PINNED


@by_command(errors.PatchError)
def _(scene: Scene) -> tuple[str, ...]:
    scene.served(cmake__cpu_extension_DOT_cmake="# written anew upstream\n")
    return PINNED


@by_command(errors.ToolchainError)
def _(scene: Scene) -> tuple[str, ...]:
    scene.monkeypatch.setenv("PATH", str(scene.tmp_path))
    scene.monkeypatch.setattr("os.defpath", "")
    return ("build", "x86", "--toolchain", "host")


@by_command(errors.OneDnnError)
def _(scene: Scene) -> tuple[str, ...]:
    scene.served(cmake__cpu_extension_DOT_cmake=CPUINFO)
    return (*PINNED, "--upstream-kernels")


@by_command(errors.LockedError)
def _(scene: Scene) -> tuple[str, ...]:
    scene.served(requirements__cpu_DOT_txt="torch==2.99.0\n")
    return (*PINNED, "--upstream-kernels", "--locked")


@by_command(errors.MemoryCapError)
def _(_: Scene) -> tuple[str, ...]:
    return ("build", "x86", "--memory", "512K")


@by_command(errors.StoreError)
def _(scene: Scene) -> tuple[str, ...]:
    (scene.tmp_path / "file").write_text("")
    return (*PINNED, "--cache", str(scene.tmp_path / "file"))


@by_command(errors.DiskFullError)
def _(scene: Scene) -> tuple[str, ...]:
    """The system itself says that the disk is full, of a device that always is."""
    scene.served()

    def full(*_: object) -> None:
        with open("/dev/full", "wb", buffering=0) as stream:  # noqa: PTH123  (what the system says of a full disk)
            stream.write(b"x")

    scene.monkeypatch.setattr("os.fsync", full)
    return PINNED


@by_command(errors.UnusableWheelError)
def _(_: Scene) -> tuple[str, ...]:
    return ("parity", "x86", "--wheel", "nothere.whl")


@by_command(errors.BisectError)
def _(scene: Scene) -> tuple[str, ...]:
    clone = clone_of_two(scene.tmp_path / "clone")
    head = git(clone, "rev-parse", "HEAD")
    return ("bisect", "--repo", str(clone), "--good", head, "--bad", head, "--run", "true")


@by_command(errors.UnsuitableSourceError)
def _(_: Scene) -> tuple[str, ...]:
    return ("build", "x86", "--source", ".")


@by_command(errors.PrecompiledError)
def _(_: Scene) -> tuple[str, ...]:
    return (*PINNED, "--kernels-from", "nothere")


@by_command(errors.PublishError)
def _(_: Scene) -> tuple[str, ...]:
    return ("serve-index",)


@by_command(errors.PostponedError)
def _(scene: Scene) -> tuple[str, ...]:
    site = scene.tmp_path / "site"
    site.mkdir()
    other = FileLock(site / LOCK)
    other.acquire()
    scene.monkeypatch.setattr(scene, "context", other, raising=True)  # held for as long as the scene is there
    return ("rebuild", "--newest", "1", "--index", DEAD, "--site", str(site))


@by_command(errors.ImageError)
def _(_: Scene) -> tuple[str, ...]:
    return ("image", "macos", "--wheel", "a.whl")


@by_command(errors.ProvenanceError)
def _(scene: Scene) -> tuple[str, ...]:
    wheel = commit_wheel(scene.tmp_path)
    make_key(scene.tmp_path / "key")
    return ("verify-provenance", str(wheel), "--trusted-key", str(scene.tmp_path / "key.pub"))


@by_command(errors.RebuildError)
def _(scene: Scene) -> tuple[str, ...]:
    return ("rebuild", str(write_wheel(scene.tmp_path, "vllm", "0.32.0")))


@by_command(errors.MirrorError)
def _(scene: Scene) -> tuple[str, ...]:
    (scene.tmp_path / "mirror").mkdir()
    return (*PINNED, "--mirror", str(scene.tmp_path / "mirror"))


@by_command(errors.SharedStoreError)
def _(scene: Scene) -> tuple[str, ...]:
    make_kernels(Store(scene.project.cache))
    (scene.tmp_path / "file").touch()
    return ("share", "--all", "--store", str(scene.tmp_path / "file"))


@by_command(errors.FarmError)
def _(scene: Scene) -> tuple[str, ...]:
    return ("farm", "up", "--farm-keys", str(scene.tmp_path / "none"))


@by_step(errors.WheelError, "a build record that is none, read as every command reads one")
def _(scene: Scene) -> None:
    parse_record(b"{}", scene.tmp_path)


@by_step(errors.MalformedDataError, "a program's answer that is no JSON, read as an install check reads it")
def _(scene: Scene) -> None:
    cpu = Cpu("", frozenset({"one", "two"}), [scene.program("echo '{'")])
    require_chosen([cpu], fake_machine.foreign(), scene.tmp_path, scene.tmp_path / "log")


def build_request(scene: Scene, tools: str) -> EnvironmentRequest:
    """Return the request for an environment of tools for this Python, with indexes that do not answer."""
    for name in [name for name in os.environ if name.startswith(("UV_", "PIP_"))]:
        scene.monkeypatch.delenv(name)
    for name, value in {"UV_DEFAULT_INDEX": DEAD, "UV_HTTP_RETRIES": "0", "UV_NO_CONFIG": "1"}.items():
        scene.monkeypatch.setenv(name, value)
    scene.monkeypatch.setenv("UV_CACHE_DIR", str(scene.tmp_path / "uv"))
    lock = scene.tmp_path / "tools.txt"
    lock.write_text(tools)
    return EnvironmentRequest("2.13.0", TorchPin(index=f"{DEAD}/cpu"), scene.context.target, (PYTHON,), lock)


@by_step(errors.TorchError, "uv, and indexes that do not answer; the rest of a build is left out")
def _(scene: Scene) -> None:
    build_environment(scene.context, build_request(scene, "# none\n"))


@by_step(errors.BuildEnvironmentError, "uv, and a tool that no index has; the rest of a build is left out")
def _(scene: Scene) -> None:
    build_environment(scene.context, build_request(scene, f"cmake==4.0.0 --hash=sha256:{'0' * 64}\n"))


@by_command(errors.StoppedError)
def _(scene: Scene) -> tuple[str, ...]:
    """A real signal, in the middle of a download."""
    scene.served()
    scene.monkeypatch.setattr("os.fsync", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    return PINNED


@by_command(errors.SlowerError)
def _(scene: Scene) -> tuple[str, ...]:
    """What the timing found is made up; the command judges it."""
    found = SimpleNamespace(
        model_dump_json=lambda **_: "{}",
        as_table=lambda _: Table([Column("model")]),
        slower=lambda _: ["tokens/s"],
        name="a.whl",
        loaded=("_C",),
    )
    found.wheel = found.against = found
    scene.monkeypatch.setattr("cpuwheels.pipeline.serve_bench.serve_bench", lambda *_: found)
    return ("serve-bench", "x86", "--against", "b.whl", "--wheel", "vllm==1", "--out", str(scene.tmp_path))


@by_command(errors.NightlyError)
def _(scene: Scene) -> tuple[str, ...]:
    """What the job came to is made up; the command judges it."""
    outcome = NightlyOutcome(source="a" * 40, target="x86", state="failed", reason="it did not compile")
    found = Summary(began="2026-11-22T10:00:00Z", seconds=1.0, index="index", outcomes=(outcome,))
    scene.monkeypatch.setattr("cpuwheels.index.nightly.job.run_nightly", lambda *_: found)
    return ("nightly",)


@by_step(errors.ConfigureError, "CMake, and a project that stops it; no target is configured")
def _(scene: Scene) -> None:
    (scene.tmp_path / "CMakeLists.txt").write_text('cmake_minimum_required(VERSION 3.26)\nmessage(FATAL_ERROR "no")\n')
    (scene.tmp_path / "cache.cmake").touch()
    program = shutil.which("cmake")
    assert program
    run_cmake(
        "a project",
        environment(python=Path(program).with_name("python")),
        scene.tmp_path,
        scene.tmp_path / "build",
        scene.tmp_path / "cache.cmake",
        env={"PATH": os.environ["PATH"]},
        launchers=Launchers(),
        log=scene.tmp_path / "log",
        next_step="see why",
    )


def ninja_output(folder: Path, command: str) -> list[str]:
    """Return what ninja prints of a job that fails."""
    (folder / "build.ninja").write_text(f"rule one\n  command = {command}\nbuild a.o: one\n")
    done = subprocess.run([NINJA, "-C", folder], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stdout.splitlines()


@by_step(errors.CompileError, "ninja and its message on a job that fails; the job is no compiler")
def _(scene: Scene) -> None:
    raise explain_failure(ninja_output(scene.tmp_path, "echo error; false"), "a cap", scene.tmp_path / "log")


@by_step(errors.OutOfMemoryError, "ninja and its message on a job that is killed as the kernel kills for memory")
def _(scene: Scene) -> None:
    raise explain_failure(
        ninja_output(scene.tmp_path, "sh -c 'kill -KILL $$$$'; exit $$?"), "a cap", scene.tmp_path / "log"
    )


@by_step(errors.AuditError, "a wheel with a module for another machine, and the check of an audit that finds it")
def _(scene: Scene) -> None:
    wheel = write_wheel(scene.tmp_path, "vllm", "0.32.0")
    with_module = scene.tmp_path / "other.whl"
    shutil.copy(wheel, with_module)
    with zipfile.ZipFile(with_module, "a") as archive:
        archive.writestr("vllm/_C.abi3.so", Elf().write())
    check_machine(dict(elf_files(with_module)), "s390x", where=with_module)


@by_step(
    errors.InstallCheckError, "a library that does not load, asked for as in an install check; no wheel is installed"
)
def _(scene: Scene) -> None:
    cpu = Cpu("", frozenset({"one", "two"}), [scene.program("echo ImportError; exit 1")])
    require_chosen([cpu], fake_machine.foreign(), scene.tmp_path, scene.tmp_path / "log")


@by_step(errors.ReproducibilityError, "the judgement of a second build's result, which is made up")
def _(scene: Scene) -> None:
    require_reproduced(verified("a.py"), scene.tmp_path / "verify.json")


@by_step(errors.CommandError, "a helper program that fails")
def _(scene: Scene) -> None:
    run(["false"], log=scene.tmp_path / "log")


@by_step(errors.ParityError, "the judgement of a run's results, which are made up")
def _(scene: Scene) -> None:
    wrong = library("_C", case("silu[1]", problem="other than expected"))
    require_parity(parity(wrong), [scene.tmp_path / "parity.json"])


@by_step(errors.ServeError, "the judgement of a server's answers, which are made up")
def _(scene: Scene) -> None:
    require_served(serving(answered(right=False)), scene.tmp_path / "serve.json", scene.tmp_path)


@by_step(errors.PreflightError, "a process that dies of an illegal instruction, as torch does")
def _(scene: Scene) -> None:
    require_products(scene.program("echo 'torch: a product in bfloat16'; kill -ILL $$"), {}, scene.tmp_path / "log")


@by_step(errors.StepLimitError, "a program that takes longer than it may; the limit is half a second")
def _(scene: Scene) -> None:
    run(["sleep", "60"], log=scene.tmp_path / "log", limit=StepLimit(wall=0.5, idle=0.5, log_bytes=1 << 20))


@by_step(errors.SandboxError, "the decision where nothing confines; that nothing does is made up")
def _(scene: Scene) -> None:
    scene.monkeypatch.setattr(prepare, "_mechanism", lambda _: Mechanism("none", "this kernel is too old"))
    get_sandbox(replace(scene.context, options=BuildOptions(locked=True)))


@by_step(errors.SignatureError, "a machine without Debian's keys")
def _(scene: Scene) -> None:
    find_gpgv(scene.tmp_path / "nothere.gpg")


@by_step(errors.NotReproducedError, "the judgement of a round of rebuilds; that one differs is made up")
def _(scene: Scene) -> None:
    wheel = NewWheel("vllm-0.32.0.whl", "0" * 64, "https://wheels.example.org/a", "0.32.0", "x86")
    require_all([Outcome(wheel, "differs", "in 3 places")], scene.tmp_path)
