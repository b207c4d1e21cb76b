"""The kernel stage: upstream's extension modules configured, compiled and collected into the store."""
