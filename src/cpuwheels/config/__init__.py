"""The configuration as strict models: matrix.yaml, locks, patch series, options, and the context of a run."""
