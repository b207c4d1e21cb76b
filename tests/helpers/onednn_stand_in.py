"""A project whose oneDNN is a stand-in, steered as a build of vLLM steers the real one."""

from __future__ import annotations

PROJECT = """cmake_minimum_required(VERSION 3.26)
project(stand_in LANGUAGES CXX)
set(CPUWHEELS_ONEDNN_SOURCE "${CMAKE_SOURCE_DIR}/../onednn")
cmake_path(NORMAL_PATH CPUWHEELS_ONEDNN_SOURCE)
set(CPUWHEELS_ONEDNN_UNUSED "${CMAKE_SOURCE_DIR}/unused.txt")
include("${STEER}/headers.cmake")
include("${STEER}/options.cmake")
include("${STEER}/onednn.cmake")
include("${STEER}/implementations.cmake")
add_subdirectory("${CPUWHEELS_ONEDNN_SOURCE}" onednn)
cpuwheels_tune_onednn_once()
add_executable(program main.cpp)
target_link_libraries(program dnnl)
"""
"""Its CMakeLists.txt; the stand-in is in the folder ``onednn`` next to it. ``STEER`` is the folder of what steers."""
