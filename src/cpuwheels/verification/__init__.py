"""Checks of a finished wheel: loading, parity, benchmark, serving, emulation and reproducibility."""
