"""The audit: whether a wheel keeps its platform policy, and what is wrong with it."""
