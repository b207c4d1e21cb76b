"""Kernels of a finished wheel, reused for a source that would compile to the same ones."""
