"""The memory cap of a kernel build: what each file is expected to need, who may run, and what holds the cap."""
