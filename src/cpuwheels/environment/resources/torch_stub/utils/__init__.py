"""Where torch's CMake files would be."""

cmake_prefix_path = ""
