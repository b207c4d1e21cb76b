"""Pinned Debian packages: where they come from, how they are resolved, and how they are unpacked."""
