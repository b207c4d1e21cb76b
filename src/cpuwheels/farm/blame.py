"""Which worker a wrong wheel is blamed on, when another one may have compiled its kernels."""

from __future__ import annotations


class Blame:
    """Who has packed wrong wheels, and of whose kernels.

    It is whoever packed it. If two have packed wrong wheels of kernels that one worker made, or that worker is left out
    already, it is that worker.

    Attributes:
        left_out: Names of the workers that are to blame.
    """

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        self._packers: dict[str, set[str]] = {}

    def on(self, packer: str, maker: str) -> str:
        """Return the worker that a wrong wheel is blamed on, which is left out from now on.

        Args:
            packer: Name of the worker that packed it.
            maker: Of the one that compiled its kernels; the same one if it did so itself.
        """
        packers = self._packers.setdefault(maker, set())
        if maker in self.left_out and packer != maker:
            return maker
        packers.add(packer)
        self.left_out = {one for made_by, by in self._packers.items() for one in _to_blame(made_by, by)}
        return maker if maker in self.left_out else packer


def _to_blame(maker: str, packers: set[str]) -> set[str]:
    others = packers - {maker}
    return {maker} if len(others) > 1 else packers
