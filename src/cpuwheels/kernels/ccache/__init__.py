"""ccache in front of every compiler: objects of other commits and folders, if the compiler would read the same."""
