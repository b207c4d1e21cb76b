"""Which worker a wrong wheel is blamed on, when another one may have compiled its kernels."""

from __future__ import annotations


class Blame:
    """Who has packed wrong wheels, and of whose kernels.

    It is whoever packed it. If two have packed wrong wheels of kernels that one worker made, it is that worker.

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
        packers = self._packers.setdefault(maker, set()) | {packer}
        self._packers[maker] = packers
        if len(packers - {maker}) > 1:
            self.left_out = self.left_out - packers | {maker}
            return maker
        self.left_out = self.left_out | {packer}
        return packer
