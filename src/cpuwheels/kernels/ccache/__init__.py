"""The compiler cache: pinned ccache behind memgate, set up so that a hit is what the compiler would write."""
