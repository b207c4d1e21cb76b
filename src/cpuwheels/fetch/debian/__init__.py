"""Pinned Debian packages: their mirrors, the resolution of their locks, and unpacking without root."""
