"""The build benchmark: upstream's CMake project as it is, and ours, with the same compiler and sources."""
