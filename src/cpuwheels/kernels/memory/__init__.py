"""The memory cap of a build: what each job is expected to need, which jobs run, and what enforces the cap."""
