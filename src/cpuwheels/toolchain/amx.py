"""AMX as isaprobe reports it, and whether oneDNN can use it.

Intel's Advanced Matrix Extensions keep a matrix in tiles. A program reads from CPUID how many there are and how large,
configures them, and only then computes. Some virtual machines announce the instructions and hide that description.
"""

from __future__ import annotations

from cpuwheels.core.models import Strict


class Palette(Strict):
    """The tiles of palette 1: CPUID leaf 0x1D, subleaf 1 (Intel SDM volume 2A, "CPUID")."""

    tiles: int
    """``max_names``."""
    rows: int
    """``max_rows`` of a tile."""
    bytes_per_row: int


NEEDED = Palette(tiles=8, rows=16, bytes_per_row=64)
"""What oneDNN's kernels are written for: the palette of every processor so far. Its convolutions compare before they
run (src/cpu/x64/jit_brgemm_conv_utils.cpp), its matrix products do not."""


class Amx(Strict):
    """What a processor that announces AMX lets a program do with it."""

    enabled: bool
    """The operating system saves the state of tiles: XCR0[17] and XCR0[18]."""
    permitted: bool
    """It let isaprobe use tile data when asked (Linux: ``ARCH_REQ_XCOMP_PERM``)."""
    palette: Palette | None
    """None if CPUID has no leaf 0x1D, or that has no palette 1."""

    @property
    def usable_by_onednn(self) -> bool:
        """Whether oneDNN's kernels for AMX work; it asks for the permission itself, and trusts the palette."""
        return not self.why_not

    @property
    def palette_fault(self) -> str:
        """What is wrong with the description of the tiles, as a clause; empty if nothing is."""
        if self.palette is None:
            return "CPUID leaf 0x1D, which describes the tiles, is missing or has no palette"
        parts = (
            (self.palette.tiles, NEEDED.tiles, "tiles"),
            (self.palette.rows, NEEDED.rows, "rows in a tile"),
            (self.palette.bytes_per_row, NEEDED.bytes_per_row, "bytes in a row"),
        )
        return next((f"its palette has {have} {unit}" for have, need, unit in parts if have < need), "")

    @property
    def why_not(self) -> str:
        """Why oneDNN cannot use it, as a clause; empty if it can."""
        if not self.enabled:
            return "the operating system has not enabled tile state"
        if not self.permitted:
            return "the operating system refuses tile data to programs"
        return self.palette_fault
