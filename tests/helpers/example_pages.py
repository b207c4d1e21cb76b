"""Every kind of page that this project writes, with as much on it as there can be, and with long and hostile names."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bisections import FOUND, LEFT, outcome
from cpuwheels.bisect.report import result_page
from cpuwheels.core.errors import CompileError
from cpuwheels.farm.batch import Came
from cpuwheels.farm.done import Done
from cpuwheels.farm.page import BatchPage
from cpuwheels.index.agreement import Agreement, Finding
from cpuwheels.index.commit_pages import Commits, Day, Missing, Row, row_of
from cpuwheels.index.entry import Lock, Reproduced, Signed, Speed
from cpuwheels.index.html import view_page
from cpuwheels.index.overview import day_pages, root_page
from cpuwheels.index.simple_pages import view_pages
from cpuwheels.index.sites import Site, Sites
from cpuwheels.kernels.memory.admission import MemoryUse
from cpuwheels.kernels.memory.costs import WrongPrediction
from cpuwheels.pipeline.comparison.compare import compare
from cpuwheels.pipeline.comparison.reports import comparison_page
from cpuwheels.pipeline.comparison.side import read_side
from cpuwheels.rebuild.members import Compared, MemberDifference
from cpuwheels.rebuild.report import Result, report_page
from cpuwheels.verification.parity.findings import Finding as Sanitized
from cpuwheels.verification.parity.html import parity_page
from farms import jobs_for
from index_entries import entry
from ledger_records import RECORDS, job
from rebuild_statements import OTHER, details, statement
from recorded_wheel import write_build
from sample_results import case, library, parity

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.index.entry import Entry

EVIL = "<script>document.title='evil'</script>"
LONG = "a_name_that_is_as_long_as_templates_of_kernels_make_it_" * 3
MACHINES = {"arm": "aarch64", "s390x": "s390x", "x86": "x86_64", "x86-avx2": "x86_64"}


def write_pages(folder: Path) -> dict[str, Path]:
    """Write the pages and return their files by what they are."""
    texts = {
        "comparison": _comparison(folder / "compared"),
        "parity": _parity(),
        "rebuilt": report_page(_rebuilt()),
        "differs": report_page(_differs()),
        "batch": _batch(folder / "batch"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))  # git sees nothing of what whoever runs this has configured
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            patch.delenv(name)
        origin = "https://github.com/vllm-project/vllm.git"
        texts["bisection"] = result_page(
            outcome(folder / "found", FOUND, {"parity": "rms_norm", "level": "full"}, origin)
        )
        texts["suspects"] = result_page(outcome(folder / "left", LEFT))
    found = {}
    for name, text in texts.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(text)
    _report(folder / "built")
    found["report"] = folder / "built" / "report.html"
    return found | _index(folder / "index")


def _report(folder: Path) -> None:
    jobs = [*RECORDS, job("CMakeFiles/_C.dir/bad.cpp.o", 12, 1, status=137, attempt=2)]
    jobs += [job(f"CMakeFiles/t{number}.dir/{LONG}.cpp.o", 13 + number, 3, peak=400) for number in range(12)]
    memory = MemoryUse(2, 600, "--memory 600", 580, "a group", 540, (WrongPrediction(f"{LONG}.o", 10, 99),))
    judged = {"file": f"vllm/{LONG}.so", "march": "generic64+avx2", "forms": 321, "guarded": ["f"], "unjudged": []}
    write_build(
        folder,
        jobs=jobs,
        memory=memory,
        notes=[f"a note on {EVIL} {LONG}"],
        flags={"_C": ("-O3", f"-DX={EVIL}", f"-I{LONG}")},
        operators={"_C": [f"_C::{LONG}", *(f"_C::operator_{number}" for number in range(60))]},
        instructions=[judged],
        untried={"_C": ["AMX-FP8"]},
    )


def _comparison(folder: Path) -> str:
    write_build(folder / "a", files={"gone<1>.py": "123", f"vllm/{LONG}.py": "1"})
    write_build(
        folder / "b",
        flags={"_C": ("-O2", f"-DX={LONG}")},
        operators={"_C": ("_C::scale", f"_C::{LONG}")},
        facts={"patches": [], "kernel_key": "other"},
    )
    return comparison_page(compare(read_side(folder / "a"), read_side(folder / "b")))


def _parity() -> str:
    wrong = [
        case(f"attention[float16-{number}]", 3.0 + number, dtype="float16", problem=f"too far by {number}.5")
        for number in range(20)
    ]
    cases = [case(f"operator_{number}[1]", number / 40) for number in range(40)]
    known = case("rms_norm[1]", 9.0, problem="off by one", known="rms_norm is off by one")
    expired = case("silu[1]", 0.1, known="silu was wrong")
    found = Sanitized(
        kind="heap-buffer-overflow", what="READ of size 4", place=f"csrc/{LONG}.cpp:12", function=f"void {EVIL}()"
    )
    unsafe = case("gelu[1]").model_copy(update={"findings": (found,), "verdict": "failed", "problems": (EVIL,)})
    libraries = [
        library(
            name,
            *cases,
            *(wrong if name == "_C" else ()),
            known,
            expired,
            unsafe,
            case(f"{LONG}[1]"),
            waived=("moe",),
            untested=("none_at_all",),
        )
        for name in ("_C", "_C_AVX2", "_C_AVX512", "_C_AVX512_AMX", "_rust", "_moe_C")
    ]
    return parity_page(parity(*libraries, not_run={"_C_AMX": "this CPU lacks amx_tile"}))


def _rebuilt() -> Result:
    made = statement(details("1" * 64, remarks=("built without --locked",)))
    return Result(statement=made, compared=None, origin=f"https://x/{EVIL}", sizes=(10, 11), seconds=61.0)


def _batch(folder: Path) -> str:
    jobs = jobs_for("a" * 40, "b" * 40, "0.33.0", level="smoke", kernels="shared")
    page = BatchPage(folder, jobs)
    for number, one in enumerate(jobs):
        page.began(one.key, f"worker-{number}")
    wheel = f"vllm-0.33.0+{LONG}-cp38-abi3-manylinux_2_28_x86_64.whl"
    page.came(Came(jobs[0], "done", Done(jobs[0].key, seconds=1261.0, by="worker-0")))
    page.came(Came(jobs[1], "there", Done(jobs[1].key, folder="x86/0.33.0", wheel=wheel, by="worker-1")))
    error = CompileError(f"wheel x86 failed: {EVIL} {LONG} does not compile")
    page.came(Came(jobs[3], "failed", Done(jobs[3].key, 31, seconds=75.0, by="worker-3"), error))
    page.came(Came(jobs[4], "not begun", Done(jobs[4].key, -1), error))
    return page.text()


def _differs() -> Result:
    many = tuple(
        MemberDifference(
            member=f"vllm/{number}{LONG}.py", where="both", kind="text", sizes=(1, 2), lines=("-a", f"+{EVIL}")
        )
        for number in range(12)
    )
    compared = Compared(count=30, same=5, differences=many)
    made = statement(details(OTHER, otherwise=("torch torch: a → b",)))
    return replace(
        _rebuilt(), statement=made, compared=compared, diffoscope=EVIL, provenance=("key abc",), signed="def"
    )


def _index(folder: Path) -> dict[str, Path]:
    entries = [_entry(number, target) for number in range(12) for target in MACHINES if (number, target) != (3, "arm")]
    commits = Commits()
    for one in entries:
        commits = commits.with_row(row_of(one))
    why = {
        "x86": Missing(state="failed", reason=f"{EVIL} ops.cpp does not compile", tried="2026-11-23T05:00:00Z"),
        "arm": Missing(state="wrong", reason=f"2 operators are wrong: {LONG} {LONG}", tried="2026-11-23T05:00:00Z"),
    }
    lost = Row(commit="f" * 40, version="", subject=f"[CPU] {EVIL}", made="2026-11-23T23:00:00Z", missing=why)
    commits = commits.with_row(lost)
    newest = [one for one in entries if one.commit == "b" * 40]
    keys = ("ab" * 32,)
    sites = Sites(
        asked="2026-11-24T00:00:00Z",
        sites=(
            Site(
                name="them",
                url="https://them.example.org/",
                keys=keys,
                reached="2026-11-24T00:00:00Z",
                agrees=3,
                differs=1,
            ),
            Site(name="others", url="https://o.example.org/", keys=keys, reached=None, fault=LONG, agrees=0, differs=0),
        ),
    )
    days = {row.made[:10] for row in commits.newest}
    texts = root_page(commits, newest, sites) | view_page("nightly", newest) | view_page("b" * 40, newest)
    texts |= view_pages("b" * 40, newest)
    for day in days:
        texts |= day_pages(day, Day(rows=tuple(row for row in commits.newest if row.made.startswith(day))))
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return {
        "root": folder / "index.html",
        "day": folder / "commits" / "2026-11-23.html",
        "nightly": folder / "nightly" / "index.html",
        "commit": folder / ("b" * 40) / "index.html",
    }


def _entry(number: int, target: str) -> Entry:
    """Return the wheel of a commit, with as much about it as can be known."""
    commit = f"{number:x}" * 40
    version = f"0.32.1.dev{number}+g{commit[:9]}.cpu"
    worse = number % 4 == 1
    came = Reproduced(
        state="differs" if worse else "reproduced", moment="2026-11-25T03:00:00Z", varied=("umask", "time")
    )
    found = Finding(
        name="them",
        keyid="ab",
        state="differs" if worse else "reproduced",
        rebuilt="f" * 64,
        moment="2026-11-23T05:00:00Z",
    )
    return entry(
        filename=f"vllm-{version}-cp38-abi3-manylinux_2_28_{MACHINES[target]}.whl",
        version=version,
        target=target,
        commit=commit,
        sha256=f"{number:x}" * 63 + f"{list(MACHINES).index(target)}",
        subject=f"[Kernel] Make number {number} of them faster on every machine there is, and `tidy` (#{number}123)",
        made=f"2026-11-{12 + number:02}T10:00:00Z",
        size=19 << 20,
        parity=("passed", "passed in part", "not run", "failed")[number % 4],
        tried="level full: 3000 cases of 80 operators on _C, _C_AVX2 (a CPU)",
        gaps=("_C_AMX was not run: this CPU lacks amx_tile",) if number % 4 == 1 else (),
        fixed_faults=38,
        served="passed" if number % 2 else "not run",
        speed=Speed(against="before.whl", ratio=0.9, slower=("rms_norm", "silu_and_mul"))
        if worse
        else Speed(against="b.whl"),
        reproduced=came,
        rebuilds=Agreement(findings=(found,), silent=("others",), statements="d" * 64),
        sandbox="not sandboxed" if worse else "bubblewrap with a user namespace",
        locked=not worse,
        lock=Lock(sha256="e" * 64),
        signed=Signed(statement="a" * 64, by=("key abcdef",)),
        beside=("parity.html", "speed.json", "serve.json", "verify.json"),
    )
