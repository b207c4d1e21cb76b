"""Kernel parity: every operator of every library in a wheel, run where the wheel is installed."""
