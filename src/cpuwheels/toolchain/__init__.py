"""Compilers, and the sysroot they build against: the glibc floor is the target's, not the builder's."""
