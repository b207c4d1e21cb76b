"""Comparing two builds: files, sizes, symbols, operators, metadata, inputs, flags and times."""
