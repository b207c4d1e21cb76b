"""What a person sees, at several widths."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from rich.console import Console

from cpuwheels.doctor.runtime.printing import print_report
from runtime_cases import QWEN3, X86, machine, report

GIB = 1 << 30
LARGE = QWEN3.model_copy(update={"weight_bytes": 40 * GIB})


def lines(found, width=60, *, terminal=True):
    out = io.StringIO()
    print_report(Console(file=out, width=width, force_terminal=terminal, color_system=None), found)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["container-2-cpus", "server-2-sockets-6-nodes"])
def test_a_terminal_is_never_overrun(name, width):
    found = report(name, model=LARGE)
    shown = lines(found, width)
    # A word that is longer than a line, such as a command's argument, is left whole.
    assert [line for line in shown if len(line) > width and len(line.split()) > 1] == []
    text = "".join("".join(shown).split())
    parts = [part for finding in found.findings for part in (finding.detail, finding.next_step)]
    assert [part for part in parts if "".join(part.split()) not in text] == []


def test_groups_settings_lines_to_paste_problems_and_the_verdict_last():
    shown = lines(report(machine("container-2-cpus", lscpu=False)))
    headings = [line for before, line in pairwise(shown) if not before and line[:1].isalpha()]
    assert headings == ["Machine", "vLLM", "Kernels", "Model", "Settings", "To paste", "Advice", "What will fail"]
    assert shown[-1] == "✗ vLLM will not serve here like this (_C)"
    assert "✗ lscpu: see below" in shown
    assert "  next: install util-linux" in [line[2:] for line in shown]


def test_each_problem_is_listed_once_with_its_next_step():
    text = "\n".join(lines(report("container-2-cpus"), 300))
    assert text.count("CPUs' worth of time (cgroup v2)") == 1
    assert text.count("--cpuset-cpus") == 1


def test_the_lines_to_paste_are_not_changed():
    found = report("server-2-sockets-6-nodes")
    for terminal in (True, False):
        assert found.paste in "\n".join(lines(found, 40, terminal=terminal))


@pytest.mark.parametrize(("name", "verdict"), [("graviton3", "✓ vLLM will serve here"), ("laptop-avx2", "! vLLM will")])
def test_the_verdict(name, verdict):
    assert lines(report(name))[-1].startswith(verdict)


def test_names_that_mean_something_else_are_explained():
    text = " ".join(lines(report("virtual-machine"), 200))
    assert "--gpu-memory-utilization: means RAM on a CPU. Its 0.92 would claim 19.7 GiB" in text
    assert "VLLM_CPU_SGL_KERNEL: not read by vLLM 0.32.0+cpu" in text
    older = X86.model_copy(update={"variables": X86.variables | {"VLLM_CPU_SGL_KERNEL"}})
    assert "VLLM_CPU_SGL_KERNEL: not read" not in " ".join(lines(report("virtual-machine", older), 200))
