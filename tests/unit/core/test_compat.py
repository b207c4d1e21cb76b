"""``tarfile`` has extraction filters with every Python."""

from __future__ import annotations

import pytest

from cpuwheels.core.compat import tarfile


def test_a_member_outside_is_refused() -> None:
    with pytest.raises(tarfile.FilterError, match="outside the destination"):
        tarfile.data_filter(tarfile.TarInfo("../outside"), "/somewhere")
