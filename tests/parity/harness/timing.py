"""Timing one operator where a case calls it, with everything that the case made for the call still there."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch

from harness.case import Case
from harness.draw import Draw
from harness.library import NAMESPACE, Library, bound, may_write, tensors

UNDONE_BY = {
    "create_onednn_mm_handler": "release_dnnl_matmul_handler",
    "create_onednn_scaled_mm_handler": "release_dnnl_matmul_handler",
}
"""Operators that make something, and what frees it; that is called after each of their calls, and not timed."""

PAGE = 4096
_LINE = 64
_RESTORED = 1 << 18
"""Bytes of memory that is written and put back before every call; more is put back before every sample only."""
_WARM_SECONDS = 5e-4
_WARM_CALLS = 3


class NotTimedError(Exception):
    """A case has no time; says why."""


@dataclass(frozen=True)
class Moment:
    """One call of an operator in a case.

    Attributes:
        size: Elements of its tensors.
        refused: Whether it raised.
    """

    size: int
    refused: bool


class Watch:
    """Is to a case the library, and sees its calls of one operator; those of processes forked from this one are not.

    Args:
        library: The library.
        operator: Which operator.
        place: At which of its calls to visit, and what is to be done there, before the call itself.
    """

    def __init__(
        self, library: Library, operator: str, place: int = -1, visit: Callable[[Replay], object] | None = None
    ) -> None:
        self._library, self._operator, self._place, self._visit = library, operator, place, visit
        self._process = os.getpid()
        self.moments: list[Moment] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._library, name)
        mine = name == self._operator and os.getpid() == self._process
        return partial(self._seen, call) if mine else call

    def _seen(self, call: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        if self._visit is not None and len(self.moments) == self._place:
            self._visit(Replay(self._library, self._operator, arguments, keywords))
        size = sum(tensor.numel() for tensor in tensors([*arguments, *keywords.values()]))
        try:
            result = call(*arguments, **keywords)
        except RuntimeError:
            self.moments.append(Moment(size, refused=True))
            raise
        self.moments.append(Moment(size, refused=False))
        return result


def largest_call(case: Case, library: Library, operator: str) -> int:
    """Run a case once and return which of its calls of the operator has the largest tensors.

    Raises:
        NotTimedError: It has none in this process, all are refused, or a call cannot be repeated.
    """
    watch = Watch(library, operator)
    call = case.build(watch, Draw(case.seed))
    call.run()
    call.close()
    if not watch.moments:
        raise NotTimedError("it is called in other processes")
    done = [place for place, moment in enumerate(watch.moments) if not moment.refused]
    if not done:
        raise NotTimedError("the call is refused, as it should be")
    if operator not in UNDONE_BY and _leaves_something(operator):
        raise NotTimedError("a call changes what later calls find")
    return max(done, key=lambda place: watch.moments[place].size)


class Replay:
    """Repeats one call with copies of its tensors, at new addresses for each sample.

    What memory a tensor happens to have makes some calls faster for as long as it has it; it would count as a
    difference between the two sides.

    Args:
        library: The library.
        operator: The operator.
        arguments: Of the call.
        keywords: Of the call, too.
    """

    def __init__(self, library: Library, operator: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self._call = getattr(library, operator)
        self._undo = getattr(library, UNDONE_BY[operator]) if operator in UNDONE_BY else None
        self._arguments, self._keywords = arguments, keywords
        schema = torch._C._get_schema(f"{NAMESPACE}::{operator}", "")
        self._written = {
            tensor.untyped_storage().data_ptr()
            for argument, value in bound(schema, arguments, keywords)
            if may_write(operator, argument)
            for tensor in tensors(value)
        }

    def seconds(self) -> float:
        """Return about how long one call takes."""
        return self.sample(3)

    def sample(self, count: int) -> float:
        """Return the median seconds of so many calls; those before them that are not counted warm up what is needed.

        Each finds the same in the memory that it writes.
        """
        moved = _Moved(self._written)
        arguments, keywords = moved.copy(self._arguments), {n: moved.copy(v) for n, v in self._keywords.items()}
        began, warm = time.perf_counter(), 0
        while warm < 1 or (warm < max(count, _WARM_CALLS) and time.perf_counter() - began < _WARM_SECONDS):
            self._once(moved, arguments, keywords)
            warm += 1
        return median(self._once(moved, arguments, keywords) for _ in range(count))

    def _once(self, moved: _Moved, arguments: Sequence[Any], keywords: dict[str, Any]) -> float:
        moved.restore()
        began = time.perf_counter()
        result = self._call(*arguments, **keywords)
        seconds = time.perf_counter() - began
        if self._undo is not None:
            self._undo(result)
        return seconds


class _Moved:
    """Copies of tensors; those that had memory in common still have."""

    def __init__(self, written: set[int]) -> None:
        self._written = written
        self._places: dict[int, tuple[torch.Tensor, int]] = {}
        self._restored: list[tuple[torch.Tensor, torch.Tensor]] = []

    def copy(self, value: Any) -> Any:
        """Return a value with its tensors copied."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, list | tuple):
            return type(value)(self.copy(each) for each in value)
        return value

    def restore(self) -> None:
        """Put back what calls have written, unless it is much."""
        for copied, original in self._restored:
            copied.copy_(original)

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._places:
            self._places[storage.data_ptr()] = self._memory(storage)
        memory, offset = self._places[storage.data_ptr()]
        place = offset // tensor.element_size() + tensor.storage_offset()
        empty = torch.empty(0, dtype=tensor.dtype)
        return empty.set_(memory.untyped_storage(), place, tensor.size(), tensor.stride())  # type: ignore[call-overload]

    def _memory(self, storage: torch.UntypedStorage) -> tuple[torch.Tensor, int]:
        count = storage.nbytes()
        memory = torch.empty(count + 2 * PAGE, dtype=torch.uint8)
        offset = (-memory.data_ptr()) % PAGE + random.randrange(0, PAGE, _LINE)
        copied, original = memory[offset : offset + count], torch.empty(0, dtype=torch.uint8).set_(storage)
        copied.copy_(original)
        if storage.data_ptr() in self._written and count <= _RESTORED:
            self._restored.append((copied, original))
        return memory, offset


def _leaves_something(operator: str) -> bool:
    """Return whether an operator is called for what it does beside its tensors: no tensor of it is a result."""
    schema = torch._C._get_schema(f"{NAMESPACE}::{operator}", "")
    written = any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments)
    kinds = {str(returned.type) for returned in schema.returns}
    return not written and kinds <= {"int", "str"}
