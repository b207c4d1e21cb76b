# Steers upstream's own CMake project from outside; upstream's files stay as they are.
#
# Read through CMAKE_PROJECT_TOP_LEVEL_INCLUDES inside upstream's first project() call, before any of its
# targets exists. Inputs are the CPUWHEELS_* cache entries that kernels/configure.py writes.
include_guard(GLOBAL)

include("${CMAKE_CURRENT_LIST_DIR}/steer/acl.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/steer/onednn.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/steer/implementations.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/steer/python.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/steer/torch.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/steer/attention.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/steer/headers.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/steer/shared.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/steer/options.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/steer/modules.cmake")

# A macro, because what a provider sets must reach the scope that asked.
macro(cpuwheels_provide_dependency method name)
  if("${method}" STREQUAL "FETCHCONTENT_MAKEAVAILABLE_SERIAL" AND "${name}" STREQUAL "oneDNN")
    cpuwheels_provide_onednn(${ARGN})
  elseif("${method}" STREQUAL "FIND_PACKAGE" AND "${name}" STREQUAL "Python")
    cpuwheels_provide_python()
  elseif("${method}" STREQUAL "FIND_PACKAGE" AND "${name}" STREQUAL "Torch" AND NOT "${CPUWHEELS_TORCH}" STREQUAL "")
    cpuwheels_provide_torch()
  elseif("${method}" STREQUAL "FETCHCONTENT_MAKEAVAILABLE_SERIAL")
    message(FATAL_ERROR "cpuwheels: upstream wants to download '${name}', which the matrix does not pin")
  endif()
endmacro()

cmake_language(
  SET_DEPENDENCY_PROVIDER cpuwheels_provide_dependency
  SUPPORTED_METHODS FETCHCONTENT_MAKEAVAILABLE_SERIAL FIND_PACKAGE
)

# Upstream's targets are complete when the top directory has been read.
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL cpuwheels_tune_modules)
