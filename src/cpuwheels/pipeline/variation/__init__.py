"""The second build of `verify`: the same source again, with what should make no difference made different."""
