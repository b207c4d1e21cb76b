"""The pages of docs/upstream/."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from upstream_diffs import diff_of
from upstream_runs import cell
from upstream_sources import MACHINES, OUTPUTS, ROOT, WHEELS, load_json, load_open, load_reports

from cpuwheels.config.patch_series import load_series
from cpuwheels.source.patches import read_hunks
from cpuwheels.source.request import request_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from upstream_sources import Report

    from cpuwheels.config.context import BuildContext
    from cpuwheels.config.patch_series import Patch


_NOT_HERE = """ It exits with status 77, and says why, where there is nothing to show: the version or the library lacks
the operator, or the CPU lacks what the fault takes."""


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
    seen = _elsewhere(report)
    env = "".join(f"{name}={value} " for name, value in report.env.items())
    shows = f"; with oneDNN {report.onednn}" if report.onednn else ""
    return f"""# {report.title}

{report.problem}

- Affected: vLLM {_span(releases)}, on {MACHINES[report.machine]}; libraries {_code(report.libraries)}{seen}{shows}
- Files: {_code(files)}
- Here: [{report.fault}]({link}), fixed by {_code(patch.file.removesuffix(".patch") for patch in patches)}

## Reproducer

It needs an installed CPU wheel of vLLM and its torch, and nothing else that vLLM requires. `LIBRARY` is the kernel
library, `{report.libraries[0]}` here.{_NOT_HERE if report.machine == "x86" else ""}

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
    if not ran:
        needs = f"It needs a CPU with {_code(report.features)}." if report.features else ""
        return " ".join(filter(None, ("Actual: not run.", needs)))
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


def _elsewhere(report: Report) -> str:
    seen = [
        name
        for name, wheel in load_json(WHEELS).items()
        if "shown" in cell(report, wheel["results"].get(report.slug, {}))
    ]
    return f"\n- Also seen on other wheels: {', '.join(map(_wheel, seen))}" if seen else ""


def _wheel(name: str) -> str:
    project, version, *_ = name.split("-")
    return f"{project.replace('_', '-')} {version}"


def _shown(one: Mapping[str, str]) -> str:
    outcome = one["outcome"]
    ended = f"[exit status {outcome.removeprefix('exit ')}]" if outcome.startswith("exit") else f"[killed by {outcome}]"
    return "\n".join(filter(None, (one["output"], ended)))


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _span(releases: Sequence[str]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def _wheels(reports: Sequence[Report]) -> str:
    """Return the section on single wheels."""
    wheels = load_json(WHEELS)
    if not wheels:
        return ""
    reports = [report for report in reports if any(report.slug in one["results"] for one in wheels.values())]
    rows = [
        f"| [{report.title}]({report.slug}.md) | "
        + " | ".join(cell(report, one["results"].get(report.slug, {})) for one in wheels.values())
        + " |"
        for report in reports
    ]
    runs = [
        f"- `{name}` on {one['date']}: {one['machine']}, torch {one['torch']}, libraries as on the reports' pages"
        for name, one in wheels.items()
    ]
    return f"""
## On wheels of others

Builds of vLLM for CPUs by another project, which has no patches for kernels. `nox -s upstream-reports -- --run
--unpatched WHEEL` runs the reproducers on such a wheel, prints this table for it, and fails if a release that is said
to be affected does not show a fault.

{chr(10).join(runs)}

| report | {" | ".join(map(_wheel, wheels))} |
|---|{"---|" * len(wheels)}
{chr(10).join(rows)}

*shown*: as on the report's page, without the patch. *not in this version*: there is no such operator or argument yet.
*not on this CPU*: the CPU lacks what the fault takes.
"""


def render_index(reports: Sequence[Report], series: Sequence[Patch], ran: Mapping[str, Any]) -> str:
    """Return the page that lists the reports."""
    rows = []
    for report in reports:
        patches = ", ".join(patch.file[:4] for patch in report.patches(series))
        seen = f"run on {_code(report.run_on)}" if report.slug in ran else "not run"
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
{_wheels(reports)}
## Without a report

| fault | machine | why |
|---|---|---|
{chr(10).join(missing)}
"""


def write_pages(context: BuildContext) -> dict[str, str]:
    """Return the text of each page by its name."""
    series, reports, ran = load_series(ROOT).patches, load_reports(), load_json(OUTPUTS)
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
