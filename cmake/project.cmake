# Tunes a project that is compiled on its own before the kernels that link it (kernels/project.py).
#
# Read through CMAKE_PROJECT_TOP_LEVEL_INCLUDES inside its first project() call.
include_guard(GLOBAL)

# A project may empty CMAKE_CXX_FLAGS, as Arm Compute Library does for "a clean build line". What the toolchain file
# put there finds the right headers and keeps paths out of the result. Its values are kept under names of our own,
# since such a project empties CMAKE_CXX_FLAGS_INIT too.
foreach(_language IN ITEMS C CXX ASM)
  set(CPUWHEELS_FLAGS_${_language} "${CMAKE_${_language}_FLAGS_INIT}")
endforeach()

function(cpuwheels_tune_project)
  foreach(_language IN ITEMS C CXX ASM)
    set(CMAKE_${_language}_FLAGS "${CPUWHEELS_FLAGS_${_language}}" PARENT_SCOPE)
  endforeach()
  get_property(_targets DIRECTORY "${CMAKE_SOURCE_DIR}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(_target IN LISTS _targets)
    get_target_property(_type ${_target} TYPE)
    if(_type MATCHES "^(STATIC|OBJECT)_LIBRARY$")
      # Archives become part of extension modules, which export nothing of them.
      set_target_properties(
        ${_target}
        PROPERTIES C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                   POSITION_INDEPENDENT_CODE ON
      )
    endif()
  endforeach()
endfunction()

# Its targets are complete when the top directory has been read.
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL cpuwheels_tune_project)
