"""Write docs/upstream/: a report for vLLM's maintainers on each fault that a patch fixes.

    nox -s upstream-reports                                          # writes the pages
    nox -s upstream-reports -- --check                               # are they what would be written?
    nox -s upstream-reports -- --run --unpatched A.whl --patched B.whl [SLUG ...]
    nox -s upstream-reports -- --run --target s390x --unpatched ...  # those of another machine, in an emulated one

A report is made from a folder of tests/reproducers/: the reproducer, the test for vLLM's own tests, and what is to be
said. The diffs are made from vLLM's source in the store. A run asserts that each reproducer fails on the unpatched
wheel as the folder says and passes on the patched one, likewise the tests, and keeps what was printed in outputs.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpuwheels.config.host import is_foreign, markers
from cpuwheels.config.matrix import load_matrix
from cpuwheels.config.options import BuildOptions, ParityOptions
from cpuwheels.config.patch_series import load_series
from cpuwheels.config.paths import Paths
from cpuwheels.core.concurrency import run_parallel
from cpuwheels.core.console import Reporter
from cpuwheels.core.environ import closed_environment
from cpuwheels.core.errors import PatchError
from cpuwheels.core.process import run, signal_name
from cpuwheels.pipeline.context import open_context
from cpuwheels.pipeline.test_environment import parity_environment, this_cpu
from cpuwheels.source.patches import apply_series, read_hunks
from cpuwheels.source.request import request_source
from cpuwheels.verification.parity.openmp import WAITING
from cpuwheels.verification.parity.suite import no_core_files
from cpuwheels.wheel.kernel_wheel import read_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.patch_series import Patch
    from cpuwheels.verification.parity.run import ParityEnvironment

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "tests" / "reproducers"
PAGES = ROOT / "docs" / "upstream"
OUTPUTS = SOURCES / "outputs.json"
OPEN = SOURCES / "open.toml"
MOST_LINES = 25
MACHINES = {"x86": "x86-64", "arm": "Arm", "s390x": "IBM Z"}
"""Those that faults are of, by the target that has their patches."""
_LINES_SHOWN = 6
_AT_ONCE = 4
_KEEPING = threading.Lock()
_HIDDEN = re.compile(r"^frame #|^Exception raised from|^\s*$|/python3|^E?x?tension modules|^Fatal Python")


@dataclass(frozen=True)
class Report:
    """One fault.

    Attributes:
        slug: Name of its folder and its page.
        title: Of the page.
        fault: Its name in docs/findings.md.
        problem: What happens and why.
        expected: What the reproducer should print, in words.
        unpatched: How it ends without the patch: ``exit 1``, or the name of a signal.
        libraries: The libraries that show it.
        machine: The target whose CPUs show it.
        features: Those that a CPU needs to show it.
        env: Variables that make it show.
        here: The libraries of our wheels that are run in place of upstream's, if their names differ.
        not_run: Why it was not run, if it cannot be run here. A run that names it runs it.
        tried: What it printed where it was run, if that was not on wheels.
        only: The patches that it is about, if others fix a fault of the same name.
    """

    slug: str
    title: str
    fault: str
    problem: str
    expected: str
    unpatched: str
    libraries: tuple[str, ...]
    machine: str = "x86"
    features: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    here: tuple[str, ...] = ()
    not_run: str = ""
    tried: str = ""
    only: tuple[str, ...] = ()

    @property
    def run_on(self) -> tuple[str, ...]:
        """The libraries of our wheels that it is run on."""
        return self.here or self.libraries

    @property
    def folder(self) -> Path:
        """Its folder."""
        return SOURCES / self.slug

    def patches(self, series: Sequence[Patch]) -> tuple[Patch, ...]:
        """Return those of the series that fix it."""
        fix = (patch for patch in series if self.fault in patch.fixes and machine_of(patch) == self.machine)
        return tuple(patch for patch in fix if not self.only or patch.file.removesuffix(".patch") in self.only)


def machine_of(patch: Patch) -> str:
    """Return the target that shows what a patch fixes."""
    return "x86" if not patch.targets or "x86" in patch.targets else patch.targets[0]


def load_reports() -> list[Report]:
    """Read the folders."""
    found = []
    for path in sorted(SOURCES.glob("*/about.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        lists = {name: tuple(about.pop(name)) for name in ("libraries", "here", "only") if name in about}
        features = tuple(about.pop("with", ()))
        found.append(Report(slug=path.parent.name, features=features, **lists, **about))
    return found


def load_outputs() -> dict[str, Any]:
    """Read what runs have left."""
    found: dict[str, Any] = json.loads(OUTPUTS.read_text(encoding="utf-8")) if OUTPUTS.is_file() else {}
    return found


def load_open(table: str = "open") -> list[dict[str, str]]:
    """Read which faults (``open``) and which single patches (``patch``) have no report, and why."""
    found: list[dict[str, str]] = tomllib.loads(OPEN.read_text(encoding="utf-8")).get(table, [])
    return found


# What the pages say.


def render(
    report: Report, patches: Sequence[Patch], releases: Sequence[str], change: tuple[str, str], ran: Mapping[str, Any]
) -> str:
    """Return the page of a report.

    Args:
        report: The fault.
        patches: Those that fix it.
        releases: Versions of vLLM that they are for.
        change: Their change, and what it is a change to.
        ran: What a run of its reproducer has left.
    """
    diff, base = change
    files = sorted({hunk.path for patch in patches for hunk in read_hunks(ROOT / "patches" / patch.file)})
    reproducer = (report.folder / "reproduce.py").read_text(encoding="utf-8")
    place, _, test = (report.folder / "test_upstream.py").read_text(encoding="utf-8").partition("\n")
    anchor = re.sub(r"[^\w\- ]", "", report.fault.lower()).replace(" ", "-")
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "findings.md").read_text(encoding="utf-8"), re.MULTILINE)
    link = f"../findings.md#{anchor}" if report.fault in headings else "../findings.md"
    env = "".join(f"{name}={value} " for name, value in report.env.items())
    return f"""# {report.title}

{report.problem}

- Affected: vLLM {_span(releases)}, on {MACHINES[report.machine]}; libraries {_code(report.libraries)}
- Files: {_code(files)}
- Here: [{report.fault}]({link}), fixed by {_code(patch.file.removesuffix(".patch") for patch in patches)}

## Reproducer

It needs an installed CPU wheel of vLLM and its torch, and nothing else that vLLM requires. `LIBRARY` is the kernel
library, `{report.libraries[0]}` here.

```sh
{env}LIBRARY={report.libraries[0]} python reproduce.py
```

```python
{reproducer.rstrip()}
```

Expected: {report.expected}

{_results(report, ran)}

## Patch

Against {base}.

```diff
Subject: [PATCH] {report.title}

---
{diff}```

## Test

`{place.removeprefix("# ")}`:

```python
{test.strip()}
```

Written by `.ci/upstream_reports.py` from `tests/reproducers/{report.slug}/`.
"""


def _results(report: Report, ran: Mapping[str, Any]) -> str:
    if not ran and report.tried:
        return f"Actual: {report.tried.strip()}"
    if not ran:
        needs = f"It needs a CPU with {_code(report.features)}." if report.features else ""
        return " ".join(filter(None, ("Actual: not run.", needs, report.not_run)))
    parts = []
    libraries = ran["libraries"]
    for kind, what in (("unpatched", "Actual, without the patch"), ("patched", "With it")):
        texts: dict[str, list[str]] = {}
        for library, both in libraries.items():
            texts.setdefault(_shown(both[kind]), []).append(library)
        parts += [f"{what} ({_code(names)}):\n\n```text\n{text}\n```" for text, names in texts.items()]
    tested = ran.get("test")
    if tested:
        parts.append(
            f"The test below was run against both wheels, too, with `{report.run_on[0]}` and a stand-in for "
            f"`vllm.platforms`: {tested['unpatched']} without the patch, {tested['patched']} with it."
        )
    built = f" {_code(report.here)} is what upstream calls {_code(report.libraries)}." if report.here else ""
    parts.append(f"Run on: {ran['machine']}; vLLM {ran['version']}, torch {ran['torch']}.{built}")
    return "\n\n".join(parts)


def _shown(one: Mapping[str, str]) -> str:
    outcome = one["outcome"]
    ended = f"[exit status {outcome.removeprefix('exit ')}]" if outcome.startswith("exit") else f"[killed by {outcome}]"
    return "\n".join(filter(None, (one["output"], ended)))


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _span(releases: Sequence[str]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def render_index(reports: Sequence[Report], series: Sequence[Patch], ran: Mapping[str, Any]) -> str:
    """Return the page that lists the reports."""
    rows = []
    for report in reports:
        patches = ", ".join(patch.file[:4] for patch in report.patches(series))
        otherwise = "run, not on wheels" if report.tried else "not run"
        seen = f"run on {_code(report.run_on)}" if report.slug in ran else otherwise
        ends = "wrong result" if report.unpatched.startswith("exit") else report.unpatched
        rows.append(f"| [{report.title}]({report.slug}.md) | {ends} | {patches} | {seen} |")
    missing = [f"| {one['fault']} | {MACHINES[one['machine']]} | {one['reason']} |" for one in load_open()]
    missing += [
        f"| {one['fault']}: {one['files']} | {MACHINES['x86']} | {one['reason']} |" for one in load_open("patch")
    ]
    return f"""# For upstream

A report on each fault of vLLM's kernels that [a patch fixes](../patches.md), for vLLM's maintainers: a reproducer, what
it prints without the patch and with it, the patch, and a test for vLLM's own tests. None was sent yet.

`nox -s upstream-reports -- --run --unpatched WHEEL --patched WHEEL` runs all reproducers and tests on two wheels, one
built with `--upstream-kernels`, and asserts what happens on both. `nox -s upstream-reports` writes these pages.

| report | without the patch | patches | reproducer |
|---|---|---|---|
{chr(10).join(rows)}

## Without a report

| fault | machine | why |
|---|---|---|
{chr(10).join(missing)}
"""


# The diffs.


def diff_of(patches: Sequence[Patch], earlier: Sequence[Patch], source: Path) -> tuple[str, list[Patch]]:
    """Return what patches change in a source, as git shows it, and the patches that have to be there before.

    Args:
        patches: Those of a report that are for this release.
        earlier: Those that come before the last of them; applied first if they do not apply by themselves.
        source: The tree as upstream published it.
    """
    folder = ROOT / "patches"
    files = sorted({hunk.path for patch in (*patches, *earlier) for hunk in read_hunks(folder / patch.file)})
    with tempfile.TemporaryDirectory() as work:
        trees = [Path(work) / side for side in ("a", "b")]
        for first in ((), [patch for patch in earlier if patch not in patches]):
            for tree in trees:
                shutil.rmtree(tree, ignore_errors=True)
                for name in filter(lambda name: (source / name).is_file(), files):
                    (tree / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source / name, tree / name)
                apply_series(first, folder, tree)
            try:
                apply_series(patches, folder, trees[1])
            except PatchError:
                continue
            break
        else:
            raise AssertionError([patch.file for patch in patches])
        # The folders' own names are the prefixes.
        command = ["git", "diff", "--no-index", "--no-prefix", "--no-color", "--stat", "--patch", "-U3", "a", "b"]
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False)
    text = re.sub(r"^ \{?a => b\}?/", " ", done.stdout, flags=re.MULTILINE)
    changed = {hunk.path for patch in patches for hunk in read_hunks(folder / patch.file)}
    before = [one for one in first if changed & {hunk.path for hunk in read_hunks(folder / one.file)}]
    return re.sub(r"^index .*\n", "", text, flags=re.MULTILINE), before


def write_pages(context: BuildContext) -> dict[str, str]:
    """Return the text of each page by its name."""
    series, reports, ran = load_series(ROOT).patches, load_reports(), load_outputs()
    matrix = context.matrix
    version = matrix.source_of(context.target)
    versions = sorted((one.version for one in matrix.releases), key=lambda text: [*map(int, text.split("."))])
    source = request_source(None, None, matrix, default=version).get(context.store, context.reporter).folder
    pages = {}
    reports = [report for report in reports if report.patches(series)]
    for report in reports:
        patches = report.patches(series)
        releases = [one for one in versions if any(patch.is_for(one, report.machine) for patch in patches)]
        ours = [patch for patch in patches if patch.is_for(version, report.machine)]
        chosen = [patch for patch in series if patch.is_for(version, report.machine)]
        earlier = chosen[: chosen.index(ours[-1])]
        diff, before = diff_of(ours, earlier, source)
        base = f"vLLM {version}"
        if before:
            base += f" with {_code(patch.file.removesuffix('.patch') for patch in before)}"
        pages[f"{report.slug}.md"] = render(report, patches, releases, (diff, base), ran.get(report.slug, {}))
    pages["README.md"] = render_index(reports, series, ran)
    return pages


# Runs.

_STAND_IN = """
import importlib.util, os, sys, types
from pathlib import Path
import torch

vllm = Path(importlib.util.find_spec("vllm").origin).parent
torch.ops.load_library(next(vllm.glob(os.environ["LIBRARY"] + ".*")))
platform = types.SimpleNamespace(is_cpu=lambda: True, import_kernels=lambda: None)
sys.modules["vllm"] = types.ModuleType("vllm")
sys.modules["vllm.platforms"] = types.ModuleType("vllm.platforms")
sys.modules["vllm.platforms"].current_platform = platform
"""


def run_all(context: BuildContext, wheels: Mapping[str, Path], only: Sequence[str]) -> int:
    """Run reproducers and tests on both wheels; return how many did not do what they have to."""
    target, matrix = context.target, context.matrix
    emulated = is_foreign(target)
    features = frozenset[str]() if emulated else this_cpu(context).features
    series = load_series(ROOT).patches
    reports = [one for one in load_reports() if one.patches(series) and (not only or one.slug in only)]
    meant = (one for one in reports if one.machine == target.id and (one.slug in only or not one.not_run))
    able = [one for one in meant if features.issuperset(one.features)]
    with context.store.scratch("wheel") as work, no_core_files():
        sides = {}
        for kind, path in wheels.items():
            wheel = read_wheel(path, target, markers(target, matrix.python[0]))
            folder = work / kind
            folder.mkdir()
            sides[kind] = parity_environment(context, wheel, ParityOptions(emulation=emulated), folder)
        about = {"machine": sides["patched"].machine, "version": wheel.version, "torch": sides["patched"].torch}
        tasks = [partial(_try, sides, one, context.logs, about) for one in able]
        run_parallel(tasks, _AT_ONCE)
    problems = [problem for report in able for problem in judge(report, load_outputs()[report.slug])]
    for problem in problems:
        context.reporter.info(problem)
    for report in reports:
        if report not in able:
            context.reporter.info(f"{report.slug}: not run")
    context.reporter.info(f"{len(able)} reproducers, {len(problems)} problems")
    return len(problems)


def judge(report: Report, found: Mapping[str, Any]) -> list[str]:
    """Return what is not as it has to be."""
    wanted = {"unpatched": report.unpatched, "patched": "exit 0"}
    problems = [
        f"{report.slug}: {library}, {kind}: {both[kind]['outcome']} instead of {wanted[kind]}: {both[kind]['output']}"
        for library, both in found["libraries"].items()
        for kind in wanted
        if both[kind]["outcome"] != wanted[kind]
    ]
    tested = found["test"]
    if tested["patched"] != "passed" or tested["unpatched"] in {"passed", "skipped"}:
        problems.append(f"{report.slug}: test: {tested}")
    return problems


def _try(sides: Mapping[str, ParityEnvironment], report: Report, logs: Path, about: Mapping[str, str]) -> None:
    libraries: dict[str, Any] = {}
    test: dict[str, str] = {}
    for kind, side in sides.items():
        folder = side.work / report.slug
        folder.mkdir()
        for name in ("reproduce.py", "test_upstream.py"):
            shutil.copyfile(report.folder / name, folder / name)
        (folder / "conftest.py").write_text(_STAND_IN, encoding="utf-8")
        log = logs / f"{report.slug}-{kind}.log"
        for library in report.run_on:
            status, output = _run(side, report, library, [folder / "reproduce.py"], log)
            outcome = signal_name(-status) if status < 0 else f"exit {status}"
            libraries.setdefault(library, {})[kind] = {"outcome": outcome, "output": clean(output)}
        arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--confcutdir", folder]
        status, output = _run(side, report, report.run_on[0], [*arguments, folder / "test_upstream.py"], log)
        ended = signal_name(-status) if status < 0 else "failed"
        test[kind] = ended if status else "passed" if " passed" in output else "skipped"
    with _KEEPING:
        kept = load_outputs() | {report.slug: {"libraries": libraries, "test": test, **about}}
        OUTPUTS.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", encoding="utf-8")


def _run(
    side: ParityEnvironment, report: Report, library: str, arguments: Sequence[str | Path], log: Path
) -> tuple[int, str]:
    cpu = next(trial.cpu for trial in side.trials if trial.cpu.tries(library))
    # Reproducers that are killed have printed what they have to say.
    variables = {"PYTHONUNBUFFERED": "1", "LIBRARY": library, **report.env}
    env = closed_environment({**WAITING, **cpu.environment, **variables})
    confined = side.confine([*cpu.python, *arguments], env)
    lines: list[str] = []
    done = confined.ended(run(confined.argv, log=log, env=confined.env, check=False, on_line=lines.append))
    return done.returncode, "\n".join(lines)


def clean(output: str) -> str:
    """Return the first lines of an output, without addresses and paths of this machine."""
    lines = [line.rstrip() for line in output.splitlines() if not _HIDDEN.search(line)]
    text = "\n".join(lines[:_LINES_SHOWN])
    return re.sub(r"(/[\w.+-]+){2,}", "...", re.sub(r"0x[0-9a-f]{4,}", "0x...", text))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, check, or run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="say whether the pages are what would be written")
    parser.add_argument("--run", action="store_true", help="run reproducers and tests first")
    parser.add_argument("--unpatched", type=Path, help="a wheel built with --upstream-kernels")
    parser.add_argument("--patched", type=Path, help="a wheel with all patches")
    parser.add_argument("--target", choices=MACHINES, default="x86", help="the target of the wheels (default: x86)")
    parser.add_argument("--cache", type=Path, default=os.environ.get("CPUWHEELS_CACHE", "~/.cache/cpuwheels"))
    parser.add_argument("slugs", nargs="*", help="run only these")
    options = parser.parse_args(arguments)
    paths = Paths(ROOT, Path(options.cache).expanduser(), ROOT / "dist")
    matrix = load_matrix(paths.matrix)
    target = options.target
    context = open_context(paths, matrix, matrix.buildable(target), BuildOptions(), Reporter(target))
    problems = 0
    if options.run:
        if not (options.unpatched and options.patched):
            parser.error("--run needs --unpatched and --patched")
        problems = run_all(context, {"unpatched": options.unpatched, "patched": options.patched}, options.slugs)
    pages = write_pages(context)
    there = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    if options.check:
        changed = sorted(name for name in pages.keys() | there.keys() if pages.get(name) != there.get(name))
        context.reporter.info(f"not as they would be written: {', '.join(changed)}" if changed else "up to date")
        return int(bool(changed or problems))
    PAGES.mkdir(exist_ok=True)
    for name in there.keys() - pages.keys():
        (PAGES / name).unlink()
    for name, text in pages.items():
        (PAGES / name).write_text(text, encoding="utf-8")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
