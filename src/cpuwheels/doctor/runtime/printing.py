"""The report of the doctor of a server for a person: lines in groups, settings to paste, problems and verdict last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cpuwheels.doctor.lines import LATER, print_finding, print_heading, print_problem, print_verdict
from cpuwheels.doctor.runtime.kv_cache import GIB

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from cpuwheels.doctor.lines import Mark
    from cpuwheels.doctor.runtime.findings import Finding, Status, Verdict
    from cpuwheels.doctor.runtime.report import Report

_MARKS: dict[Status, Mark] = {"ok": "ok", "info": "info", "advice": "warn", "fail": "fail"}
_VERDICTS: dict[Verdict, tuple[Mark, str, str]] = {
    "well": ("ok", "green", "vLLM will serve here"),
    "works": ("warn", "yellow", "vLLM will serve here; there is advice above"),
    "fails": ("fail", "bold red", "vLLM will not serve here like this"),
}


def print_report(console: Console, report: Report) -> None:
    """Print a report.

    Args:
        console: Where to print. A terminal is filled to its width; elsewhere a line is never broken.
        report: The report.
    """
    for group in dict.fromkeys(finding.group for finding in report.findings):
        print_heading(console, group)
        for finding in report.findings:
            if finding.group == group:
                later = finding.status in {"advice", "fail"}
                print_finding(console, _MARKS[finding.status], finding.name, LATER if later else finding.detail)
    print_heading(console, "Settings")
    for setting in report.reasons:
        print_finding(console, "info", f"{setting.name} {setting.value}".strip(), setting.reason)
    for line in _explanations(report):
        print_finding(console, "info", *line)
    print_heading(console, "To paste")
    console.print(Text(report.paste), soft_wrap=True, highlight=False)
    _problems(console, "Advice", (finding for finding in report.findings if finding.status == "advice"))
    _problems(console, "What will fail", (finding for finding in report.findings if finding.status == "fail"))
    mark, style, text = _VERDICTS[report.verdict]
    print_verdict(console, mark, f"{text} ({report.choice.library or 'no library'})", style)


def _problems(console: Console, title: str, findings: Iterable[Finding]) -> None:
    found = list(findings)
    if found:
        print_heading(console, title)
    for finding in found:
        print_problem(console, _MARKS[finding.status], finding.name, finding.detail, finding.next_step)


def _explanations(report: Report) -> list[tuple[str, str]]:
    """Return what is to be understood: a name that means something else on a CPU, and one of the past."""
    found = []
    settings, package = report.settings, report.package
    if settings.cache is not None:
        node = next(node for node in report.machine.nodes if node.id == settings.ranks[0].memory)
        claim = 0.92 * report.machine.total_of(node) / GIB
        tokens = settings.cache.tokens_in(settings.cache.gib * GIB)
        detail = (
            f"means RAM on a CPU. Its 0.92 would claim {claim:.1f} GiB for each worker; it is not used for the cache "
            f"where VLLM_CPU_KVCACHE_SPACE is set. vLLM logs 'KV cache size: about {tokens:,} tokens'"
        )
        found.append(("--gpu-memory-utilization", detail))
    if report.choice.amx.state in {"works", "without oneDNN"} and "VLLM_CPU_SGL_KERNEL" not in package.variables:
        detail = f"not read by vLLM {package.version}: it uses these kernels by itself where AMX works"
        found.append(("VLLM_CPU_SGL_KERNEL", detail))
    return found
