"""The build report: which jobs ran when, in which memory, and how near to the best possible."""
