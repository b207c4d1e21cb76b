"""Run the command line with ``python -m cpuwheels``."""

from cpuwheels.cli.main import main

if __name__ == "__main__":  # a process of multiprocessing imports it under another name
    main()
