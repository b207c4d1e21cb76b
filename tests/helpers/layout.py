"""Where the project, its tests and their helpers are."""

from __future__ import annotations

from pathlib import Path

HELPERS = Path(__file__).parent
TESTS = HELPERS.parent
ROOT = TESTS.parent
INTEGRATION = TESTS / "integration"
