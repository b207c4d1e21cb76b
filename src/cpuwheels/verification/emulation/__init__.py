"""Machines that this one is not: their Linux programs run here under QEMU's user-mode emulation, without root."""
