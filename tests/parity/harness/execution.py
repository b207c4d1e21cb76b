"""Running a case: once against its oracle, and again to see whether it gives the same bits."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from harness.case import Call, Case
from harness.compare import Agreement, bits, compare
from harness.draw import Draw
from harness.expected import Near
from harness.formats import name_of
from harness.library import Library
from harness.limits import Bound, OperatorLimits, operator_limits
from harness.ranks import run_alone

SECONDS = 300
"""A case that takes longer ends its process by SIGALRM: an operator that waits for ever cannot be stopped otherwise."""


@dataclass
class Outcome:
    """What a case gave.

    Attributes:
        agreements: For each output, how it agrees with its oracle.
        outputs: The outputs.
        bounds: For outputs with a limit, that of each element.
        problems: What is wrong; empty if nothing is.
        seconds: How long the first call took.
    """

    agreements: dict[str, Agreement] = field(default_factory=dict)
    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    bounds: dict[str, Bound] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def run_case(case: Case, library: Library, threads: int, *, twice: bool = True, once: bool = False) -> Outcome:
    """Run a case and judge it.

    Args:
        case: The case.
        library: Where its operators come from.
        threads: How many threads to use; where the operator is deterministic it is run again with one.
        twice: Whether it is run again with as many threads, too, though it was with one; that shows more races.
        once: Whether it is not run again at all.
    """
    limits = operator_limits(case.operators[0])
    outcome = Outcome()
    torch.set_num_threads(threads)
    library.called.clear()
    library.made.clear()
    signal.alarm(SECONDS)
    try:
        _judge(case, library, limits, outcome)
        if not outcome.problems and not once:
            _repeat(case, library, limits, outcome, threads, twice=twice)
    except Exception as error:  # noqa: BLE001 - whatever an operator or an oracle raises is a result, too
        outcome.problems.append(f"{type(error).__name__}: {error}")
    signal.alarm(0)
    torch.set_num_threads(threads)
    return outcome


def _judge(case: Case, library: Library, limits: OperatorLimits, outcome: Outcome) -> None:
    draw = Draw(case.seed)
    call = case.build(library, draw)
    expected = call.expected()
    started = time.perf_counter()
    returned = run_alone(library, call.run) if call.alone else call.run()
    outcome.outputs, made = _copies(returned), {name for name in returned if library.has_made(returned[name])}
    outcome.seconds = time.perf_counter() - started
    if damage := draw.damage():
        outcome.problems.append(damage)
    call.close()
    if missing := set(case.operators) - library.called:
        outcome.problems.append(f"the case never called {', '.join(sorted(missing))}")
    if set(expected) != set(outcome.outputs):
        outcome.problems.append(f"outputs {sorted(outcome.outputs)}, but the oracle has {sorted(expected)}")
        return
    for name, wanted in expected.items():
        limit = None
        if isinstance(wanted, Near):
            limit = limits.of(name, case.dtype)
            if name in made and (problem := _format(outcome.outputs[name], _wanted(call, limits, name, case.dtype))):
                outcome.problems.append(f"{name}: {problem}")
        agreement = compare(outcome.outputs[name], wanted, limit, library.cut_off)
        outcome.agreements[name] = agreement
        if agreement.message:
            outcome.problems.append(f"{name}: {agreement.message}")
        if agreement.bound is not None:
            outcome.bounds[name] = agreement.bound


def _wanted(call: Call, limits: OperatorLimits, output: str, dtype: str) -> str:
    return name_of(call.formats[output]) if output in call.formats else limits.format_of(output, dtype)


def _format(output: torch.Tensor, wanted: str) -> str:
    """Return what is wrong with the format of an output."""
    if not wanted:
        return f"nothing says that the output is to be {name_of(output.dtype)}: name its format in limits/"
    return "" if name_of(output.dtype) == wanted else f"the output is {name_of(output.dtype)} instead of {wanted}"


def _repeat(
    case: Case, library: Library, limits: OperatorLimits, outcome: Outcome, threads: int, *, twice: bool
) -> None:
    same = {name: limits.determinism(name) for name in outcome.outputs}
    again: tuple[object, ...] = (True, "threads") if twice or threads == 1 else ("threads",)
    runs: list[tuple[int, str, tuple[object, ...]]] = [(threads, "a second run", again)]
    if threads > 1:
        runs.append((1, "one thread", (True,)))
    for count, what, kinds in runs:
        names = [name for name, kind in same.items() if kind in kinds]
        if not names:
            continue
        torch.set_num_threads(count)
        call = case.build(library, Draw(case.seed))
        again = call.run()
        for name in names:
            if not _same(outcome.outputs[name], again[name]):
                outcome.problems.append(f"{name}: {what} gave other bits")
        call.close()


def _copies(outputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in outputs.items()}


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(bits(one), bits(other))
