"""Emulated machines: Linux programs of other processors, run by QEMU's user-mode emulation without root."""
