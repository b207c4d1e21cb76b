"""Kernel benchmark: calls from the cases of parity, timed on two wheels in turn."""
