from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from cpuwheels.core.console import Reporter
from cpuwheels.core.errors import CompileError, OutOfMemoryError
from cpuwheels.core.progress import Progress
from cpuwheels.kernels.launchers import Launchers
from cpuwheels.kernels.memory.admission import CapPlan, Session
from cpuwheels.kernels.memory.cgroup_limit import Hold
from cpuwheels.kernels.memory.costs import Cost
from cpuwheels.kernels.memory.limits import JobPlan
from cpuwheels.kernels.memory.memgate import GateFolder
from cpuwheels.kernels.ninja import compile_modules, explain_failure
from cpuwheels.kernels.workspace import Workspace
from kernel_request import FIRST, environment, kernel_request
from ledger_records import job

if TYPE_CHECKING:
    from cpuwheels.kernels.request import KernelRequest

LOG = Path("compile.log")
GXX = "/store/memgate --ledger /work/jobs.jsonl -- /store/gcc/bin/g++ -O2 -Icsrc"

COMPILE_ERROR = f"""\
FAILED: [code=1] CMakeFiles/_C.dir/csrc/cpu/layernorm.cpp.o
{GXX} -o CMakeFiles/_C.dir/csrc/cpu/layernorm.cpp.o -c /work/vllm/csrc/cpu/layernorm.cpp
/work/vllm/csrc/cpu/layernorm.cpp: In function 'void rms_norm(at::Tensor&)':
/work/vllm/csrc/cpu/layernorm.cpp:12:5: error: 'vec_op' has not been declared
   12 |     vec_op::fma(a, b);
      |     ^~~~~~
[13/498] Building CXX object CMakeFiles/_C.dir/csrc/cpu/pos_encoding.cpp.o
ninja: build stopped: subcommand failed.
"""

OLD_NINJA = COMPILE_ERROR.replace("[code=1] ", "")

LINK_ERROR = f"""\
FAILED: [code=1] _C.abi3.so
: && {GXX} -shared -o _C.abi3.so CMakeFiles/_C.dir/csrc/cpu/layernorm.cpp.o && :
/store/gcc/bin/ld: CMakeFiles/_C.dir/csrc/cpu/layernorm.cpp.o: in function `rms_norm':
layernorm.cpp:(.text+0x10): undefined reference to `missing'
collect2: error: ld returned 1 exit status
ninja: build stopped: subcommand failed.
"""

KILLED_COMPILER = f"""\
FAILED: [code=1] CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o
{GXX} -o CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o -c /work/vllm/csrc/cpu/cpu_attn.cpp
g++: fatal error: Killed signal terminated program cc1plus
compilation terminated.
ninja: build stopped: subcommand failed.
"""

KILLED_LINKER = f"""\
FAILED: [code=1] _C.abi3.so
: && {GXX} -shared -o _C.abi3.so CMakeFiles/_C.dir/csrc/cpu/layernorm.cpp.o && :
collect2: fatal error: ld terminated with signal 9 [Killed]
compilation terminated.
ninja: build stopped: subcommand failed.
"""

KILLED_DRIVER = f"""\
FAILED: [code=137] CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o
{GXX} -o CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o -c /work/vllm/csrc/cpu/cpu_attn.cpp
ninja: build stopped: subcommand failed.
"""

OUT_OF_MEMORY_WORDS = f"""\
FAILED: [code=1] CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o
{GXX} -o CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o -c /work/vllm/csrc/cpu/cpu_attn.cpp

cc1plus: out of memory allocating 65536 bytes after a total of 2945875968 bytes
ninja: build stopped: subcommand failed.
"""

GATED = f"""\
FAILED: [code=137] CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o
{GXX} -o CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o -c /work/vllm/csrc/cpu/cpu_attn.cpp
memgate: CMakeFiles/_C.dir/csrc/cpu/cpu_attn.cpp.o was killed for memory at 300 MiB, though alone: all may take 300 MiB
ninja: build stopped: subcommand failed.
"""

CALLED_OFF = f"""\
FAILED: [code=125] CMakeFiles/_C.dir/csrc/cpu/pos_encoding.cpp.o
{GXX} -o CMakeFiles/_C.dir/csrc/cpu/pos_encoding.cpp.o -c /work/vllm/csrc/cpu/pos_encoding.cpp
memgate: not started: another job failed
"""

LAST_LINE = "ninja: build stopped: subcommand failed.\n"


@pytest.mark.parametrize(
    ("text", "output", "words"),
    [
        (COMPILE_ERROR, "csrc/cpu/layernorm.cpp.o could not", "layernorm.cpp:12:5: error: 'vec_op' has not been"),
        (OLD_NINJA, "csrc/cpu/layernorm.cpp.o could not", "layernorm.cpp:12:5: error: 'vec_op' has not been"),
        (LINK_ERROR, "_C.abi3.so", "undefined reference to `missing'"),
        (CALLED_OFF + COMPILE_ERROR, "csrc/cpu/layernorm.cpp.o could not", "'vec_op' has not been"),
    ],
    ids=["compile", "older ninja", "link", "after one that was called off"],
)
def test_a_fault_of_the_code_is_told_in_the_compilers_words(text: str, output: str, words: str) -> None:
    error = explain_failure(text.splitlines(), "a memory cap of 4 GiB", LOG)
    assert type(error) is CompileError
    assert output in error.what
    assert words in error.output
    assert "memgate --ledger" not in error.output
    assert "pos_encoding" not in error.output
    assert error.log == LOG
    assert error.next_step


@pytest.mark.parametrize(
    ("text", "program", "output"),
    [
        (KILLED_COMPILER, "cc1plus", "cpu_attn.cpp.o"),
        (KILLED_LINKER, "ld", "_C.abi3.so"),
        (KILLED_DRIVER, "", "cpu_attn.cpp.o"),
        (OUT_OF_MEMORY_WORDS, "cc1plus", "cpu_attn.cpp.o"),
        (CALLED_OFF + GATED, "cpu_attn.cpp.o", "cpu_attn.cpp.o"),
        (COMPILE_ERROR.replace(LAST_LINE, KILLED_COMPILER), "cc1plus", "cpu_attn.cpp.o"),
        (KILLED_COMPILER.replace(LAST_LINE, COMPILE_ERROR), "cc1plus", "cpu_attn.cpp.o"),
    ],
    ids=[
        "compiler",
        "linker",
        "driver",
        "refused memory",
        "by the gate",
        "after another failure",
        "before another failure",
    ],
)
def test_what_was_killed_for_memory_is_told_as_that(text: str, program: str, output: str) -> None:
    error = explain_failure(text.splitlines(), "a memory cap of 4 GiB", LOG)
    assert type(error) is OutOfMemoryError
    assert program in error.what
    assert output in error.what
    assert "layernorm" not in error.what
    assert "a memory cap of 4 GiB" in error.where
    assert "--memory" in error.next_step


def test_a_ninja_that_fails_before_any_job_is_told_in_its_words() -> None:
    error = explain_failure(["ninja: error: unknown target '_C'"], "a memory cap of 4 GiB", LOG)
    assert type(error) is CompileError
    assert "unknown target '_C'" in error.output


@pytest.fixture
def request_(tmp_path: Path) -> KernelRequest:
    (tmp_path / "env" / "bin").mkdir(parents=True)
    return kernel_request(tmp_path, environment=environment(python=tmp_path / "env" / "bin" / "python"))


@pytest.fixture(autouse=True)
def often_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuwheels.kernels.ninja._SAMPLE_SECONDS", 0.05)


@pytest.fixture
def shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is shown as soon as it is sampled."""
    monkeypatch.setattr("cpuwheels.core.console.PLAIN_INTERVAL", 0.0)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path / "work", FIRST)
    workspace.build.mkdir(parents=True)
    workspace.modules_list.write_text("_C\nspinloop\n")
    return workspace


@pytest.fixture
def session(tmp_path: Path) -> Session:
    memgate = tmp_path / "memgate"
    status = {"running": 1, "waiting": 4, "bytes": 5242880, "peak_bytes": 6291456}
    memgate.write_text(f"#!/bin/sh\necho '{json.dumps({**status, 'jobs': [{'expected': 35.48, 'age': 9}]})}'\n")
    memgate.chmod(0o755)
    plan = CapPlan(
        jobs=JobPlan(2, "CPUs", 4 << 30, "--memory 4G"),
        gate=GateFolder(tmp_path / "gate", memgate, "b1"),
        seed=tmp_path / "seed.tsv",
        learned=tmp_path / "learned.tsv",
        worst_peak=1 << 30,
    )
    held = Hold("a group", ("/usr/bin/env", "GROUP=yes"))
    return Session(plan, held, room=3 << 30, window=7, expected={}, links={}, ledger=tmp_path / "jobs.jsonl", before=0)


def fake_ninja(request: KernelRequest, script: str) -> None:
    ninja = request.environment.scripts / "ninja"
    ninja.write_text(f'#!/bin/sh\necho "arguments: $*"\n{script}\n')
    ninja.chmod(0o755)


def test_every_module_is_asked_for(
    request_: KernelRequest, workspace: Workspace, session: Session, reporter: Reporter, logs: Path
) -> None:
    fake_ninja(request_, "echo '[1/2] Building x.o'; echo '[2/2] Linking _C.abi3.so'; echo $GROUP $MEMGATE_BUILD")
    compile_modules(request_, workspace, Launchers(), session, reporter, logs / "compile.log")
    log = (logs / "compile.log").read_text()
    assert f"arguments: -C {workspace.build} -j7 _C spinloop" in log
    assert "yes b1" in log


@pytest.mark.parametrize(
    ("text", "expected", "words"),
    [
        ("[12/498] Building CXX object a.o\n" + COMPILE_ERROR, CompileError, "'vec_op' has not been declared"),
        ("[12/498] Building CXX object a.o\n" + KILLED_COMPILER, OutOfMemoryError, "cc1plus was killed for memory"),
        ("ninja: error: loading 'build.ninja': No such file or directory\n", CompileError, "loading 'build.ninja'"),
    ],
)
def test_a_failure_of_ninja_is_explained(
    request_: KernelRequest,
    workspace: Workspace,
    session: Session,
    reporter: Reporter,
    logs: Path,
    tmp_path: Path,
    text: str,
    expected: type[CompileError],
    words: str,
) -> None:
    (tmp_path / "said").write_text(text)
    fake_ninja(request_, f"cat {tmp_path}/said; exit 1")
    with pytest.raises(expected) as raised:
        compile_modules(request_, workspace, Launchers(), session, reporter, logs / "compile.log")
    assert words in str(raised.value)


@pytest.mark.usefixtures("shown_at_once")
def test_progress_is_shown_while_one_long_file_compiles(
    request_: KernelRequest, workspace: Workspace, session: Session, reporter: Reporter, story: io.StringIO, logs: Path
) -> None:
    fake_ninja(request_, "echo '[3/9] Building CXX object a/b/cpu_attn.cpp.o'; sleep 0.5")
    compile_modules(request_, workspace, Launchers(), session, reporter, logs / "compile.log")
    assert "3/9 files" in story.getvalue()
    assert "cpu_attn.cpp.o" in story.getvalue()
    assert "memory 5 MiB" in story.getvalue()


@pytest.mark.usefixtures("shown_at_once")
def test_progress_is_of_the_expected_work(
    request_: KernelRequest, workspace: Workspace, session: Session, reporter: Reporter, story: io.StringIO, logs: Path
) -> None:
    """Of 100 CPU seconds of files to be made 32 are done, one that runs has done 9, and the link takes 3."""
    made, running, other, present = (f"CMakeFiles/_C.dir/{name}.o" for name in ("made", "running", "other", "present"))
    session.expected = {made: Cost(32, 1), running: Cost(35.48, 1), other: Cost(29.52, 1), present: Cost(100, 1)}
    session.links = {"_C.abi3.so": Cost(3, 1), "_other.abi3.so": Cost(50, 1)}
    (workspace.build / present).parent.mkdir(parents=True)
    (workspace.build / present).touch()
    records = [job(made, 0, 1.0, status=1), job(made, 0, 32.0), job(other, 0, 1.0, status=1)]
    earlier = job(running, 0, 1.0).model_dump_json() + "\n"
    session.before = len(earlier)
    session.ledger.write_text(earlier + "".join(record.model_dump_json() + "\n" for record in records))
    fake_ninja(request_, "echo '[1/4] Building CXX object made.o'; sleep 0.5")
    compile_modules(request_, workspace, Launchers(), session, reporter, logs / "compile.log")
    assert "41%  about 33 s to go  1/4 files" in story.getvalue()  # other, then the link; two CPUs


@pytest.mark.usefixtures("shown_at_once")
def test_a_live_view_learns_what_runs_and_the_cap(
    request_: KernelRequest, workspace: Workspace, session: Session, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long, other = (f"CMakeFiles/_C.dir/{name}.cpp.o" for name in ("short", "long", "other"))
    session.expected = {short: Cost(20, 1), long: Cost(35.48, 1), other: Cost(29.52, 1)}
    jobs = [{"expected": 20, "age": 4.4}, {"expected": 35.48, "age": 130}]
    status = {"running": 2, "waiting": 1, "bytes": 5242880, "peak_bytes": 6291456, "jobs": jobs}
    session.plan.gate.memgate.write_text(f"#!/bin/sh\necho '{json.dumps(status)}'\n")
    told: list[Progress] = []
    watched = Reporter("x86", Console(file=io.StringIO()))
    monkeypatch.setattr(watched, "progress", told.append)
    fake_ninja(request_, "echo '[3/9] Building CXX object a/b/done.cpp.o'; sleep 0.5")
    compile_modules(request_, workspace, Launchers(), session, watched, logs / "compile.log")
    assert (told[-1].memory, told[-1].cap) == (5 << 20, 4 << 30)
    assert told[-1].running == ("long.cpp.o 2:10", "short.cpp.o 4 s")


def test_the_gate_is_not_asked_for_progress_that_nobody_is_shown(
    request_: KernelRequest,
    workspace: Workspace,
    session: Session,
    reporter: Reporter,
    story: io.StringIO,
    logs: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    session.plan.gate.memgate.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    fake_ninja(request_, "echo '[3/9] Building CXX object a/b/cpu_attn.cpp.o'; sleep 0.5")
    with reporter.stage("kernels", "which take less than the time between two lines"):
        compile_modules(request_, workspace, Launchers(), session, reporter, logs / "compile.log")
    assert not (tmp_path / "asked").exists()
    assert "3/9 files" not in story.getvalue()
    request.getfixturevalue("shown_at_once")
    compile_modules(request_, workspace, Launchers(), session, reporter, logs / "compile.log")
    assert (tmp_path / "asked").exists()
