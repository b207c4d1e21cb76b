"""What runs a library's operators and judges their results; knows nothing of any operator."""
