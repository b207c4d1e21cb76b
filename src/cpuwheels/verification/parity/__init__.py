"""Kernel parity: every operator of every library in a wheel, compared with an exact result."""
