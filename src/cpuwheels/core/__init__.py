"""The base of all other packages, without knowledge of vLLM: errors, processes, the store, files, binaries."""
