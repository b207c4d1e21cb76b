"""Entry of `nox -s bench`; `docs/benchmark.md` says how to run it and what its figures mean."""

from buildbench.command import main

if __name__ == "__main__":
    main()
