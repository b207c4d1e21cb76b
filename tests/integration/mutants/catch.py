"""Plants each fault in turn and says which case of parity finds it; runs where torch is installed.

Arguments: the folder of the cases, the library, and faults if not all. Each fault has a process of its own, as the
library reads it when it is loaded; all of them come from this one, which has torch and the cases loaded. The answer is
JSON: for each fault the case that finds it, its level, and what it says; "" stands for the library without a fault,
which has all its cases tried, and says how many of them there are.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "planted"))
from forked import Say, apart

THREADS = 2
HERE = Path(__file__).parent
TRIED = {
    "silu": {"silu_and_mul"},
    "gelu_quick": {"gelu_quick"},
    "norm": {"rms_norm", "fused_add_rms_norm"},
    "add": {"fused_add_rms_norm"},
    "rotary": {"rotary_embedding"},
    "int8": {"static_scaled_int8_quant", "dynamic_scaled_int8_quant"},
    "cache": {"cpu_attn_reshape_and_cache"},
    "attention": {"cpu_attention_with_kv_cache"},
}
"""Which operators a fault is in, by the first word of its name; else that is the operator."""
NONE = {"int8: not a number becomes 0", "int8: sign", "attention: depends on threads"}
"""What is no fault there: integers have neither, and attention may divide its keys by the number of threads."""


def faults() -> list[str]:
    """Return the names of all faults in the source: those of one place, and those of every operator that stores."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(HERE.glob("*.h")))
    own = set(re.findall(r'fault\("((?:' + "|".join(TRIED) + r'): [^"]+)"\)', text))
    stores = set(re.findall(r'(?:store|write)\(.*, "(\w+)"\);', text))
    everywhere = set(re.findall(r'fault\(operation, "([^"]+)"\)', text))
    return sorted((own | {f"{operator}: {name}" for operator in stores for name in everywhere}) - NONE)


def operators_of(fault: str) -> set[str]:
    """Return the operators that a fault is in."""
    word = fault.split(":", maxsplit=1)[0]
    return TRIED.get(word, {word})


def try_all(library: Any, say: Say) -> None:
    """Try all cases of the library without a fault and say how many there are, or which is not right."""
    from harness.execution import run_case  # noqa: PLC0415  (found only once main has said where)
    from harness.selection import cases_for  # noqa: PLC0415

    tried: dict[str, int] = {}
    for case in cases_for(library.operators, "full"):
        if problems := run_case(case, library, THREADS).problems:
            return say(case=case.name, problem=problems[0])
        tried |= {operator: tried.get(operator, 0) + 1 for operator in case.operators}
    return say(tried={operator: tried.get(operator, 0) for operator in library.operators})


def find(library: Any, wanted: set[str], say: Say) -> None:
    """Try the cases of some operators, those of the smoke level first, until one is not right."""
    from harness.execution import run_case  # noqa: PLC0415
    from harness.selection import cases_for  # noqa: PLC0415

    few = {case.name for case in cases_for(library.operators, "smoke")}
    chosen = [case for case in cases_for(library.operators, "full") if wanted & set(case.operators)]
    for case in sorted(chosen, key=lambda case: case.name not in few):
        level = "smoke" if case.name in few else "full"
        say(case=case.name, problem="the process died", level=level)
        if problems := run_case(case, library, THREADS).problems:
            return say(case=case.name, problem=problems[0], level=level)
    return say(case=None)


def run(fault: str, path: Path, say: Say) -> None:
    """Load the library with a fault and try its cases."""
    os.environ["MUTANT"] = fault
    from harness.library import Library  # noqa: PLC0415

    library = Library(path)
    if fault:
        find(library, operators_of(fault), say)
    else:
        try_all(library, say)


def main() -> None:
    """Try every fault and the library without one."""
    tests, path, only = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    sys.path.insert(0, tests)
    from harness.selection import families  # noqa: PLC0415

    torch.set_num_threads(1)  # OpenMP's threads are not in a fork
    families()
    answers = {}
    for fault in only or ["", *faults()]:
        answers[fault] = apart(lambda say, fault=fault: run(fault, path, say))
        print(fault, answers[fault], file=sys.stderr, flush=True)
    print(json.dumps(answers, indent=1))


if __name__ == "__main__":
    main()
