"""Reproducible source builds of vLLM wheels for CPUs."""
