"""The doctor of a server: which kernels vLLM would run on a machine, with which settings, and what would fail."""
