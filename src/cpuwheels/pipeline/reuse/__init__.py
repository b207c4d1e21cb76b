"""Kernels of finished wheels, for sources that have the same."""
