"""Loading: each library of a wheel in a process of its own, and the one that the wheel itself takes."""
