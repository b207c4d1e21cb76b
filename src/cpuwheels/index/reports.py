"""What lies beside a wheel and is published with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.errors import PublishError, UsageError
from cpuwheels.finished import RECORD
from cpuwheels.parity.files import HTML, JSON
from cpuwheels.parity.results import read_parity

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.index.entry import Parity

NAMES = (RECORD, "report.html", "operators.json", JSON, HTML)


def reports_beside(wheel: Path, sha256: str) -> tuple[dict[str, bytes], Parity]:
    """Return the reports that lie beside a wheel, by name, and what its parity came to.

    Args:
        wheel: The file.
        sha256: Its digest; a parity report of another wheel, or of some operators alone, does not count.

    Raises:
        PublishError: A report cannot be read.
    """
    try:
        found = {name: path.read_bytes() for name in NAMES if (path := wheel.with_name(name)).is_file()}
        parity = read_parity(wheel.with_name(JSON)) if JSON in found else None
    except (OSError, UsageError) as error:
        raise PublishError(
            f"a report of {wheel.name} cannot be read: {error}", where=wheel.parent, next_step="write it again"
        ) from error
    if parity is None or parity.sha256 != sha256 or parity.only:
        return {name: text for name, text in found.items() if name not in {JSON, HTML}}, "not run"
    return found, "passed" if parity.passed else "failed"
