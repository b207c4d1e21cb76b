"""Python environments: the one that builds, those in which a wheel is tested, and the torch in each."""
