"""The build report: everything about one wheel on a page, and its compilations as a Chrome trace."""
