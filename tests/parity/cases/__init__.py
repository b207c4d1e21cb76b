"""Which calls of each operator are tried, and which oracle judges them."""
