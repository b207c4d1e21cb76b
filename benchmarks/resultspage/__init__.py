"""docs/performance.md, made from results that lie in benchmarks/results; see ``docs/benchmark.md``."""
