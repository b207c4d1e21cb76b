"""A client's connection to a farm: the scheduler of dask.distributed, and the workers that are there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from distributed import Client

from cpuwheels.core.errors import FarmError
from cpuwheels.farm.remote_faults import scheduler_gone
from cpuwheels.farm.worker import forget_carried

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distributed import Future as DaskFuture
    from distributed.security import Security

    from cpuwheels.farm.done import Done

CONNECT_SECONDS = 20


class Connection:
    """The connection.

    Args:
        address: Of the scheduler.
        security: Certificates.
        timeout: Seconds in which the scheduler has to answer.

    Raises:
        FarmError: The scheduler does not answer, or refuses the certificate.
    """

    def __init__(self, address: str, security: Security, timeout: float = CONNECT_SECONDS) -> None:
        self.address = address
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what is wrong is told as one error
        try:
            self.client = Client(address, security=security, timeout=timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise FarmError(
                f"the scheduler does not answer: {error}",
                where=address,
                next_step="see whether cpuwheels farm up runs there, and whether --farm-keys has its certificates",
            ) from error

    @property
    def stands(self) -> bool:
        """Whether the scheduler is there."""
        return bool(self.client.status == "running")

    def names(self) -> dict[str, str]:
        """Return the names of the workers by their addresses.

        Raises:
            FarmError: The scheduler is gone.
        """
        return {address: str(one["name"]) for address, one in self._workers().items()}

    def offers(self) -> dict[str, Mapping[str, float]]:
        """Return what each worker offers, by its name.

        Raises:
            FarmError: The scheduler is gone.
        """
        return {str(one["name"]): one["resources"] for one in self._workers().values()}

    def busy(self) -> set[str]:
        """Return the addresses of the workers that have something to do."""
        return {address for address, keys in self.client.processing().items() if keys}

    def maker(self, ended: DaskFuture[Done], said: str) -> str:
        """Return the name of a worker that has a result: the one that says it made it, if it has it.

        Args:
            ended: The result.
            said: Name of the worker that the result itself has.
        """
        names = self.names()
        (holders,) = self.client.who_has([ended]).values()
        found = [names[address] for address in holders if address in names]
        return said if said in found or not found else found[0]

    def cancel(self, attempts: Sequence[DaskFuture[Done]]) -> None:
        """Do not wait for these any more; they are ended unless another client wants the same.

        Args:
            attempts: Each after those whose results it uses; one may be there more than once.
        """
        # What uses others goes first: dask fails if it has given up a task already that it is told to.
        for one in reversed({one.key: one for one in attempts}.values()):
            if self.stands:
                self.client.cancel([one])

    def retire(self, name: str) -> None:
        """Send no more jobs to a worker, and end it."""
        if found := [address for address, one in self.names().items() if one == name]:
            self.client.retire_workers(found, close_workers=True)

    def forget(self, carried: Done) -> None:
        """Have every worker forget kernels, and their audit, that another machine sent it."""
        for key in filter(None, (carried.kernels, carried.audit)):
            self.client.run(forget_carried, key)

    def _workers(self) -> dict[str, dict[str, Any]]:
        if not self.stands:
            raise scheduler_gone(self.address)
        try:
            return dict(self.client.scheduler_info(n_workers=-1)["workers"])
        except (OSError, TimeoutError, KeyError) as error:
            raise scheduler_gone(self.address) from error
