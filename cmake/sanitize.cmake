# Instruments upstream's own code for sanitizers; read after steer.cmake, and by no build of a wheel.
#
# CPUWHEELS_SANITIZE is the list of compiler flags. Only the targets of upstream's own directory get them: oneDNN's
# are in one of their own, and stay as they are. Nothing is linked: what the instrumented code calls is in the run time
# that is loaded in front of Python.
include_guard(GLOBAL)

cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL cpuwheels_sanitize)

function(cpuwheels_sanitize)
  get_property(_targets DIRECTORY "${CMAKE_SOURCE_DIR}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(_target IN LISTS _targets)
    get_target_property(_type ${_target} TYPE)
    if(_type MATCHES "^(MODULE|OBJECT)_LIBRARY$")
      target_compile_options(${_target} PRIVATE ${CPUWHEELS_SANITIZE})
    endif()
    if(_type STREQUAL "MODULE_LIBRARY")
      # As they lie in the store: nothing moves the libraries into a wheel.
      target_link_options(${_target} PRIVATE "LINKER:-rpath,$ORIGIN/../libraries")
    endif()
  endforeach()
endfunction()
