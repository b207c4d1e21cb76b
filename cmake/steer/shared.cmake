# One shared library for what upstream links statically into every module: a wheel then holds it once.
#
# CPUWHEELS_SHARED is <archive>=<object library>: the archive's target, and the object library through which the
# modules use it. The shared library holds the members that those objects need and exports what they call, nothing
# else; the modules' own linking stays as it is. CPUWHEELS_SHARED_DEFINES are the definitions with which the
# archive's files make their interface visible.
#
# CPUWHEELS_BUILT is the build folder that has the library already: that of another configuration, or this one, into
# which a finished library was put. The target cpuwheels_calls then still lists what the objects call, so that the build
# can tell whether it would have made the same library.
set(CPUWHEELS_CALLS "${CMAKE_CURRENT_LIST_DIR}/shared/calls.cmake")
set(CPUWHEELS_ROOTS "${CMAKE_CURRENT_LIST_DIR}/shared/roots.cmake")

function(cpuwheels_share_archive)
  if(NOT "${CPUWHEELS_SHARED}" MATCHES "^([^=]+)=(.+)$")
    return()
  endif()
  set(_archive ${CMAKE_MATCH_1})
  set(_users ${CMAKE_MATCH_2})
  if(NOT TARGET ${_archive} OR NOT TARGET ${_users})
    return()
  endif()
  get_target_property(_interface ${_users} INTERFACE_LINK_LIBRARIES)
  list(REMOVE_ITEM _interface ${_archive})
  set_target_properties(${_users} PROPERTIES INTERFACE_LINK_LIBRARIES "${_interface}")
  if(NOT "${CPUWHEELS_BUILT}" STREQUAL "" AND NOT "${CPUWHEELS_BUILT}" STREQUAL "${CMAKE_BINARY_DIR}")
    return()
  endif()
  set(_folder "${CMAKE_BINARY_DIR}/shared")
  add_custom_command(
    OUTPUT "${_folder}/called.txt"
    COMMAND
      "${CMAKE_COMMAND}" "-DNM=${CMAKE_NM}" "-DOBJECTS=$<JOIN:$<TARGET_OBJECTS:${_users}>,|>" "-DFOLDER=${_folder}" -P
      "${CPUWHEELS_CALLS}"
    DEPENDS $<TARGET_OBJECTS:${_users}> "${CPUWHEELS_CALLS}"
    COMMENT "Listing what ${_users} calls"
    VERBATIM
  )
  add_custom_target(cpuwheels_calls DEPENDS "${_folder}/called.txt")
  if(NOT "${CPUWHEELS_BUILT}" STREQUAL "")
    return()
  endif()
  set(_library cpuwheels_${_archive})
  add_custom_command(
    OUTPUT "${_folder}/link.rsp" "${_folder}/exports.map" "${_folder}/empty.cpp"
    COMMAND
      "${CMAKE_COMMAND}" "-DNM=${CMAKE_NM}" "-DARCHIVE=$<TARGET_FILE:${_archive}>" "-DFOLDER=${_folder}" -P
      "${CPUWHEELS_ROOTS}"
    DEPENDS ${_archive} "${_folder}/called.txt" "${CPUWHEELS_ROOTS}"
    COMMENT "Listing what ${_users} calls of ${_archive}"
    VERBATIM
  )
  add_library(${_library} SHARED "${_folder}/empty.cpp")
  target_link_options(
    ${_library} PRIVATE "@${_folder}/link.rsp" "LINKER:--version-script=${_folder}/exports.map"
    "LINKER:--gc-sections" "LINKER:-Map=${CMAKE_BINARY_DIR}/${_library}.map"
  )
  target_link_libraries(${_library} PRIVATE ${_archive})
  set_target_properties(
    ${_library} PROPERTIES LINK_DEPENDS "${_folder}/link.rsp;${_folder}/exports.map" SKIP_BUILD_RPATH ON
    INSTALL_RPATH "" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}"
  )
  file(WRITE "${CMAKE_BINARY_DIR}/cpuwheels-libraries.txt" "${_library}\n")
endfunction()

# Links a module that uses the object library with the shared library: by its file, because CMake lets the objects of a
# target that links another one wait for all that the other's commands make.
function(cpuwheels_use_shared module)
  if(NOT "${CPUWHEELS_SHARED}" MATCHES "^([^=]+)=(.+)$")
    return()
  endif()
  set(_library cpuwheels_${CMAKE_MATCH_1})
  set(_users ${CMAKE_MATCH_2})
  get_target_property(_libraries ${module} LINK_LIBRARIES)
  if((TARGET ${_library} OR NOT "${CPUWHEELS_BUILT}" STREQUAL "") AND _users IN_LIST _libraries)
    set(_file "${CMAKE_BINARY_DIR}/lib${_library}.so")
    if(NOT "${CPUWHEELS_BUILT}" STREQUAL "")
      set(_file "${CPUWHEELS_BUILT}/lib${_library}.so")
    endif()
    target_link_libraries(${module} PRIVATE "${_file}")
    set_property(TARGET ${module} APPEND PROPERTY LINK_DEPENDS "${_file}")
  endif()
endfunction()
