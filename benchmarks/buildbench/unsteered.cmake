# What upstream's CMake project needs to configure against this toolchain, and nothing else of the steering:
# the sysroot's Python headers (the machine may have none, or those of another C library), and a list of the modules.
include_guard(GLOBAL)

include("${CPUWHEELS_STEERING}/steer/python.cmake")

# A macro, because what a provider sets must reach the scope that asked.
macro(bench_provide_dependency method name)
  if("${name}" STREQUAL "Python")
    cpuwheels_provide_python()
  endif()
endmacro()

cmake_language(SET_DEPENDENCY_PROVIDER bench_provide_dependency SUPPORTED_METHODS FIND_PACKAGE)

function(bench_list_modules)
  get_property(_targets DIRECTORY "${CMAKE_SOURCE_DIR}" PROPERTY BUILDSYSTEM_TARGETS)
  set(_modules "")
  foreach(_target IN LISTS _targets)
    get_target_property(_type ${_target} TYPE)
    if(_type STREQUAL "MODULE_LIBRARY")
      list(APPEND _modules ${_target})
    endif()
  endforeach()
  list(JOIN _modules "\n" _lines)
  file(WRITE "${CMAKE_BINARY_DIR}/cpuwheels-modules.txt" "${_lines}\n")
endfunction()

cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL bench_list_modules)
