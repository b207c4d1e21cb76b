"""The report of the doctor of a server for a person: lines in groups, settings to paste, problems and verdict last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cpuwheels.doctor.runtime.kv_cache import GIB

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from cpuwheels.doctor.runtime.findings import Finding, Status, Verdict
    from cpuwheels.doctor.runtime.report import Report

_MARKS: dict[Status, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "info": ("·", "dim"),
    "advice": ("!", "yellow"),
    "fail": ("✗", "bold red"),
}
_VERDICTS: dict[Verdict, tuple[Status, str]] = {
    "well": ("ok", "vLLM will serve here"),
    "works": ("advice", "vLLM will serve here; there is advice above"),
    "fails": ("fail", "vLLM will not serve here like this"),
}


def print_report(console: Console, report: Report) -> None:
    """Print a report.

    Args:
        console: Where to print. A terminal is filled to its width; elsewhere a line is never broken.
        report: The report.
    """
    for group in dict.fromkeys(finding.group for finding in report.findings):
        _heading(console, group)
        for finding in report.findings:
            if finding.group == group:
                later = finding.status in {"advice", "fail"}
                _line(console, finding.status, finding.name, "see below" if later else finding.detail)
    _heading(console, "Settings")
    for setting in report.reasons:
        _line(console, "info", f"{setting.name} {setting.value}".strip(), setting.reason)
    for line in _explanations(report):
        _line(console, "info", *line)
    _heading(console, "To paste")
    console.print(Text(report.paste), soft_wrap=True, highlight=False)
    _problems(console, "Advice", (finding for finding in report.findings if finding.status == "advice"))
    _problems(console, "What will fail", (finding for finding in report.findings if finding.status == "fail"))
    console.print()
    status, text = _VERDICTS[report.verdict]
    mark, style = _MARKS[status]
    library = report.choice.library or "no library"
    console.print(Text(f"{mark} {text} ({library})", style=style), soft_wrap=not console.is_terminal)


def _heading(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold"))


def _problems(console: Console, title: str, findings: Iterable[Finding]) -> None:
    found = list(findings)
    if not found:
        return
    _heading(console, title)
    for finding in found:
        _line(console, finding.status, finding.name, finding.detail)
        if finding.next_step:
            _step(console, Text(f"next: {finding.next_step}", style="italic"))


def _step(console: Console, text: Text) -> None:
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, 4)), highlight=False)
    else:
        console.print(Text("    ") + text, soft_wrap=True, highlight=False)


def _line(console: Console, status: Status, name: str, detail: str) -> None:
    mark, style = _MARKS[status]
    text = Text.assemble((name, "bold"), f": {detail}" if detail else "")
    if not console.is_terminal:
        console.print(Text.assemble((mark, style), " ", text), soft_wrap=True, highlight=False)
        return
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_column(width=1)
    row.add_column(overflow="fold")
    row.add_row(Text(mark, style=style), text)
    console.print(row, highlight=False)


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
