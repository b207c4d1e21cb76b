"""Kernel tests: they need only torch, numpy and pytest, and run where the wheel is installed.

Each process tests one library, named by CPUWHEELS_LIBRARY.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session")
def ops() -> object:
    """The library's operators; every one of upstream's libraries registers them in the namespace ``_C``."""
    path = Path(os.environ["CPUWHEELS_LIBRARY"])
    torch.ops.load_library(str(path))
    return torch.ops._C


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(20260101)
