# Answers upstream's FetchContent_MakeAvailable(oneDNN) with sources that were pinned and verified before.
#
# ARGN is what upstream declared. Its GIT_TAG must be the one that the sources were chosen for, so a
# source that moves to another oneDNN stops here instead of being built with the old one.
macro(cpuwheels_provide_onednn)
  cmake_parse_arguments(_cpuwheels_declared "" "GIT_TAG" "" ${ARGN})
  if(NOT "${_cpuwheels_declared_GIT_TAG}" STREQUAL "${CPUWHEELS_ONEDNN_TAG}")
    message(
      FATAL_ERROR
        "cpuwheels: upstream asks for oneDNN '${_cpuwheels_declared_GIT_TAG}', "
        "but '${CPUWHEELS_ONEDNN_TAG}' was prepared"
    )
  endif()
  set(_cpuwheels_onednn_build "${CMAKE_BINARY_DIR}/_deps/onednn-build")
  add_subdirectory("${CPUWHEELS_ONEDNN_SOURCE}" "${_cpuwheels_onednn_build}" EXCLUDE_FROM_ALL)
  FetchContent_SetPopulated(
    oneDNN SOURCE_DIR "${CPUWHEELS_ONEDNN_SOURCE}" BINARY_DIR "${_cpuwheels_onednn_build}"
  )
endmacro()
