"""Python environments: those that build, those that test a wheel, and the torch in them."""
