"""The toolchain stage: a compiler, a sysroot lowered to the target's glibc floor, and the native helpers."""
