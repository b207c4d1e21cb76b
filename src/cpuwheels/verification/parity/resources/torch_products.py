"""A product in bfloat16 and one in int8, by torch. Runs in the environment under test, and prints each step.

The results are compared with float64's and int64's. The numbers are whole and small, so that both are exact.
"""

from __future__ import annotations

import sys

import torch

WRONG = 3
ROWS, INNER, COLUMNS = 64, 128, 96


def main() -> int:
    """Return the exit status: 0 if both are right, `WRONG` if one is not."""
    torch.manual_seed(0)
    one, two = torch.randint(-4, 5, (ROWS, INNER)), torch.randint(-4, 5, (INNER, COLUMNS))
    exact = one.double() @ two.double()
    print("torch: a product in bfloat16", flush=True)
    found = one.bfloat16() @ two.bfloat16()
    if not torch.equal(found.double(), exact.bfloat16().double()):
        return WRONG
    print("torch: a product in int8", flush=True)
    whole = torch._int_mm(one.to(torch.int8), two.to(torch.int8))  # noqa: SLF001  (no public one exists)
    return 0 if torch.equal(whole.double(), exact) else WRONG


if __name__ == "__main__":
    sys.exit(main())
