"""The audit: platform tag, glibc floor, needed libraries, symbols and instructions of a wheel's binaries."""
