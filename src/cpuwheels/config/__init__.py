"""The configuration: ``matrix.yaml``, locks and patch series as models; options, paths, and this machine's kind."""
