"""Kernel speed: the cases of parity, timed on two wheels in turn."""
