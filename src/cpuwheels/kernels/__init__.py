"""The kernels: upstream's extension modules, configured, compiled and collected into the store."""
