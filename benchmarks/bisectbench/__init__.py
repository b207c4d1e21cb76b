"""The benchmark of bisections: ours, and ``git bisect run`` with upstream's build as it is."""
