"""One farm of two workers for all tests of a module that leave it whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cpuwheels.farm.remote import RemoteExecutor
from cpuwheels.farm.security import read_certificates
from farms import Farm, farm_of


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    with farm_of(tmp_path_factory.mktemp("farm")) as running:
        yield running


@pytest.fixture
def remote(farm: Farm) -> Iterator[RemoteExecutor]:
    with RemoteExecutor(farm.address, read_certificates(farm.keys)) as executor:
        yield executor
