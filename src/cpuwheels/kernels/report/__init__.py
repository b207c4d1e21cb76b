"""The build report: every job with its time and memory, as a page and as a Chrome trace."""
