"""Facts in, checks out: one table for each thing the doctor judges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpuwheels.config.matrix import Matrix, Target, load_matrix
from cpuwheels.config.pins import AclPin
from cpuwheels.core.errors import UsageError
from cpuwheels.core.store import Store
from cpuwheels.doctor import host
from cpuwheels.doctor.check import Check, as_json, exit_code, from_error, verdict
from cpuwheels.doctor.compilers import judge_compilers, uses_pinned
from cpuwheels.doctor.host import DiskFacts
from cpuwheels.doctor.inputs import Context, acl_need, suitable
from cpuwheels.doctor.needs import Need, Place, judge_need, questions
from cpuwheels.doctor.network import Answer
from cpuwheels.fetch.git_archive import commit_key
from cpuwheels.kernels.memory.limits import CpuLimit, JobPlan, MemoryLimit
from cpuwheels.toolchain.amx import NEEDED, Amx, Palette
from cpuwheels.toolchain.native_helpers import CpuFeatures
from cpuwheels.verification.onednn_isa import OnednnLimit

GIB = 1 << 30


@pytest.fixture
def matrix(project_root: Path) -> Matrix:
    return load_matrix(project_root)


@pytest.fixture
def target(matrix: Matrix) -> Target:
    return matrix.target("x86")


@pytest.mark.parametrize(
    ("statuses", "code"), [((), 0), (("ok", "info", "warn"), 0), (("ok", "fail"), 1), (("fail", "fail"), 1)]
)
def test_exit_code(statuses, code):
    assert exit_code([Check("x", status, "") for status in statuses]) == code


def test_json():
    checks = [Check("git", "ok", "2.39"), Check("disk", "fail", "full", "free space")]
    data = json.loads(as_json("x86", checks))
    assert data["target"] == "x86"
    assert data["can_build"] is False
    disk = {"name": "disk", "status": "fail", "detail": "full", "next_step": "free space", "group": ""}
    assert data["checks"][1] == disk


@pytest.mark.parametrize(
    ("statuses", "line"),
    [
        (("ok", "info"), "x86: can be built here"),
        (("ok", "warn"), "x86: can be built here (1 warning)"),
        (("fail", "warn", "fail", "warn"), "x86: cannot be built here yet (2 failures, 2 warnings)"),
    ],
)
def test_verdict(statuses, line):
    assert verdict("x86", [Check("x", status, "") for status in statuses]) == line


def test_error_becomes_a_failed_check():
    check = from_error("memory", UsageError("bad", where="there", next_step="do"))
    assert check == Check("memory", "fail", "bad (there)", "do")


@pytest.mark.parametrize(
    ("facts", "need", "stored", "status"),
    [
        (DiskFacts(Path("/c"), 7 * GIB), 6 * GIB, False, "ok"),
        (DiskFacts(Path("/c"), 6 * GIB), 6 * GIB, False, "ok"),
        (DiskFacts(Path("/c"), 6 * GIB - 1), 6 * GIB, False, "fail"),
        (DiskFacts(Path("/c"), 1 * GIB), 6 * GIB, True, "warn"),
        (DiskFacts(Path("/c"), 0, "read-only"), 6 * GIB, True, "fail"),
    ],
)
def test_disk(facts, need, stored, status):
    check = host.judge_disk("cache", facts, need, "CPUWHEELS_CACHE", kernels_stored=stored)
    assert check.status == status
    assert ("CPUWHEELS_CACHE" in check.next_step) == (status != "ok")


def test_disk_says_what_a_build_takes_and_keeps():
    check = host.judge_disk("cache", DiskFacts(Path("/c"), 7 * GIB), 6 * GIB, "X", kept=4 * GIB)
    assert (check.status, check.detail) == (
        "ok",
        "7 GiB free at /c; a build takes about 6 GiB, and keeps about 4 GiB of it",
    )
    check = host.judge_disk("cache", DiskFacts(Path("/c"), 5 * GIB), 6 * GIB, "X", kept=4 * GIB)
    assert check.detail == "5 GiB free at /c; a build may need 6 GiB, and keeps about 4 GiB of it"
    assert host.judge_disk("output", DiskFacts(Path("/c"), GIB), GIB, "X").detail == "1 GiB free at /c"


def test_disk_facts_of_a_folder_to_come(tmp_path):
    facts = host.disk_facts(tmp_path / "a" / "b")
    assert facts.free > 0
    assert not facts.fault
    assert list(tmp_path.iterdir()) == []


def test_disk_facts_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    assert host.disk_facts(tmp_path / "file" / "b").fault


def test_disk_facts_where_nothing_can_be_written():
    assert host.disk_facts(Path("/proc/cpuwheels")).fault


@pytest.mark.parametrize(
    ("version", "status"), [((3, 10, 14), "fail"), ((3, 11, 0), "ok"), ((3, 14, 1), "ok"), ((4, 0, 0), "ok")]
)
def test_python(version, status):
    assert host.judge_python(version).status == status


@pytest.mark.parametrize(
    ("found", "stored", "status"),
    [({}, None, "fail"), ({"3.12": Path("/usr/bin/python3.12")}, None, "ok"), ({}, "3.11", "ok")],
)
def test_build_pythons(found, stored, status):
    check = host.judge_build_pythons(["3.11", "3.12"], found, stored)
    assert check.status == status
    assert status == "ok" or "uv python install 3.11" in check.next_step


@pytest.mark.parametrize(
    ("code", "needed", "status", "detail"),
    [
        (0, True, "ok", "git 2"),
        (127, True, "fail", "not found"),
        (127, False, "info", "not found"),
        (124, True, "fail", "does not run (status 124)"),
    ],
)
def test_program(code, needed, status, detail):
    check = host.judge_program("git", code, "git 2\nmore\n", needed=needed, step="install git")
    assert (check.status, check.detail) == (status, detail)


@pytest.mark.parametrize(("available", "status"), [(8 * GIB, "ok"), (1 * GIB, "warn")])
def test_memory(target, available, status):
    limit = MemoryLimit(16 * GIB, "memory.max", available)
    check = host.judge_memory(target, limit, CpuLimit(8, "quota"), JobPlan(4, "memory", 16 * GIB, "memory.max"))
    assert check.status == status
    for part in ("16 GiB", "memory.max", "8 CPUs", "quota", "4 jobs", "set by memory"):
        assert part in check.detail


def features_of(architecture: str, *features: str, amx: Amx | None = None) -> CpuFeatures:
    return CpuFeatures(
        architecture=architecture, vendor="V", model="M", features=frozenset(features), xcr0=None, amx=amx
    )


HASWELL = {"avx2", "f16c", "fma"}
SKYLAKE = HASWELL | {"avx512f", "avx512vl", "avx512bw", "avx512dq"}
ZEN4 = SKYLAKE | {"avx512_bf16", "avx512_vnni"}


@pytest.mark.parametrize(
    ("features", "chosen", "loadable"),
    [
        (ZEN4, "_C", {"_C", "_C_AVX512", "_C_AVX2"}),
        (SKYLAKE, "_C_AVX512", {"_C_AVX512", "_C_AVX2"}),
        (HASWELL, "_C_AVX2", {"_C_AVX2"}),
    ],
)
def test_libraries(target, features, chosen, loadable):
    cpu = features_of("x86_64", *features)
    summary, *rows = host.judge_libraries(target, cpu)
    assert summary == Check("CPU features", "ok", f"M: vLLM would load {chosen}")
    assert {row.name.removeprefix("library ") for row in rows if row.status == "ok"} == loadable


def test_no_library_fits(target):
    cpu = features_of("x86_64", "avx2")
    summary, *rows = host.judge_libraries(target, cpu)
    assert summary.status == "warn"
    assert rows[-1].detail.endswith("f16c")


def test_libraries_of_another_machine(target):
    cpu = features_of("aarch64")
    (check,) = host.judge_libraries(target, cpu, foreign=True)
    assert (check.status, target.machine in check.detail) == ("info", True)


def test_unknown_cpu(target):
    (check,) = host.judge_libraries(target, None)
    assert check.status == "info"


HELD = OnednnLimit("AVX512_CORE_FP16", "it has to be", from_user=False)
OWN = OnednnLimit("AVX2", "you said so", from_user=True)
HELD_BACK = "; oneDNN is held back to AVX512_CORE_FP16"
OWN_BACK = "; oneDNN is held back to AVX2 because you said so"
NO_LEAF = "announced, but CPUID leaf 0x1D, which describes the tiles, is missing or has no palette"
OFF = "announced, but the operating system has not enabled tile state"
REFUSED = "announced, but the operating system refuses tile data to programs"
NO_TILES = Palette(tiles=0, rows=0, bytes_per_row=0)


@pytest.mark.parametrize(
    ("enabled", "permitted", "palette", "limit", "status", "detail", "step"),
    [
        (True, True, NEEDED, None, "ok", "usable by oneDNN and vLLM", ""),
        (True, True, NEEDED, OWN, "ok", f"usable by oneDNN and vLLM{OWN_BACK}", ""),
        (False, False, NEEDED, None, "info", OFF, ""),
        (True, False, None, None, "info", REFUSED, ""),
        (True, False, None, OWN, "info", f"{REFUSED}{OWN_BACK}", ""),
        (True, True, None, HELD, "warn", f"{NO_LEAF}{HELD_BACK}", "set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 where"),
        (True, True, NO_TILES, OWN, "warn", f"announced, but its palette has 0 tiles{OWN_BACK}", "see that AVX2 is"),
    ],
)
def test_amx(*, enabled, permitted, palette, limit, status, detail, step):
    amx = Amx(enabled=enabled, permitted=permitted, palette=palette)
    (check,) = host.judge_amx(features_of("x86_64", amx=amx), limit)
    assert (check.name, check.status, check.detail) == ("AMX", status, detail)
    assert (check.next_step.startswith(step), bool(check.next_step)) == (True, bool(step))


def test_no_amx():
    assert host.judge_amx(features_of("x86_64"), None) == [Check("AMX", "info", "this CPU has none")]


def test_amx_is_x86s_own():
    assert host.judge_amx(features_of("aarch64"), None) == []


OLD = ("g++-12", "GNU 12.2.0: older", False)
NEW = ("g++-15", "GNU 15.2.0", True)


@pytest.mark.parametrize(
    ("survey", "choice", "pinned", "status", "words"),
    [
        ([OLD], "auto", True, "ok", "no compiler of this machine meets"),
        ([], "auto", True, "ok", "gcc-15-amd64"),
        ([OLD, NEW], "auto", False, "ok", "g++-15 of this machine"),
        ([OLD, NEW], "debian", True, "ok", "asked for"),
        ([OLD], "host", False, "fail", "no compiler"),
        ([NEW], "host", False, "ok", "g++-15"),
    ],
)
def test_compilers(target, *, survey, choice, pinned, status, words):
    *rows, used = judge_compilers(target, survey, choice)
    assert uses_pinned(target, survey, choice) == pinned
    assert used.status == status
    assert words in used.detail
    assert [row.status for row in rows] == ["ok" if good else "info" for _, _, good in survey]


@pytest.mark.parametrize(("survey", "choice"), [([OLD], "auto"), ([NEW], "debian")])
def test_target_without_a_pinned_compiler(target, survey, choice):
    bare = target.model_copy(update={"toolchain": None})
    assert judge_compilers(bare, survey, choice)[-1].status == "fail"


@pytest.mark.parametrize(
    ("survey", "choice", "status"), [([NEW], "auto", "ok"), ([OLD], "auto", "fail"), ([NEW], "debian", "fail")]
)
def test_pinned_compiler_of_another_machine(target, survey, choice, status):
    used = judge_compilers(target, survey, choice, runs=False)[-1]
    assert not uses_pinned(target, survey, choice, runs=False)
    assert used.status == status
    assert status == "ok" or "does not run on this machine" in used.detail + used.next_step


YES, NO = Answer(True, "answers"), Answer(False, "no route")


def need(name: str, *, stored: bool = False, **more: object) -> Need:
    places = (Place(f"{name}/1", lambda: YES), Place(f"{name}/2", lambda: YES))
    return Need(name, "the build", stored, places, "fix it", **more)


@pytest.mark.parametrize(
    ("first", "second", "status", "words"),
    [(YES, NO, "ok", "x/1: answers"), (NO, YES, "ok", "x/2: answers"), (NO, NO, "fail", "no route; x/2: no route")],
)
def test_one_place_is_enough(first, second, status, words):
    check = judge_need(need("x"), {"x/1": first, "x/2": second})
    assert check.status == status
    assert words in check.detail


def test_what_is_stored_asks_nobody():
    stored = need("x", stored=True, alternate=need("y"))
    assert questions([stored]) == {}
    assert judge_need(stored, {}) == Check("x", "ok", "in the store")


@pytest.mark.parametrize(
    ("alternate_stored", "answer", "locked", "status"),
    [
        (False, YES, False, "warn"),
        (True, NO, False, "warn"),
        (False, NO, False, "fail"),
        (False, YES, True, "fail"),
        (True, YES, True, "fail"),
    ],
)
def test_alternate(alternate_stored, answer, locked, status):
    main = need("x", alternate=need("y", stored=alternate_stored), locked=locked)
    check = judge_need(main, {"x/1": NO, "x/2": NO, "y/1": NO, "y/2": answer})
    assert check.status == status
    assert "y" in check.detail
    assert check.next_step == "fix it"


def test_need_that_may_not_be_one_only_warns():
    assert judge_need(need("x", certain=False), {"x/1": NO, "x/2": NO}).status == "warn"


def test_no_place_at_all():
    assert "no place is configured" in judge_need(Need("x", "y", False, (), "z"), {}).detail


GOOD = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], None),
        (["torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl"], None),
        (["torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl"], None),
        (["torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_aarch64.whl"], None),
        (["torch-2.12.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl", "not-a-wheel.whl", GOOD], GOOD),
    ],
)
def test_suitable_torch(names, found):
    assert suitable(names, "2.13.0+cpu", ["cp311"], "x86_64") == found


@pytest.mark.parametrize(
    ("commit", "locked", "stored", "good", "status"),
    [
        ("c" * 40, False, True, False, "ok"),
        ("c" * 40, False, False, True, "ok"),
        ("c" * 40, False, False, False, "warn"),
        ("c" * 40, True, False, False, "fail"),
        (None, False, False, True, "ok"),
        (None, False, False, False, "warn"),
        # A tag alone is refused, wherever it can be had.
        (None, True, False, True, "fail"),
    ],
)
def test_a_build_goes_on_without_arm_compute_library(tmp_path, commit, locked, stored, good, status):
    store = Store(tmp_path)
    if stored:
        store.path("acl", commit_key(commit)).mkdir(parents=True)
    context = Context(tmp_path, store, {"CPUWHEELS_ACL_REPO": "mine"}, (), locked, certain=True)
    need = acl_need(context, "v52.6.0", AclPin(commit=commit, repositories=("theirs",), machines=("aarch64",)))
    answers = {name: Answer(good, "said so") for name in ("mine", "theirs")}
    assert judge_need(need, answers).status == status
