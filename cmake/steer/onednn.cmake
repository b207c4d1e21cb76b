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
  if("${CPUWHEELS_BUILT}" STREQUAL "")
    set(_cpuwheels_onednn_build "${CMAKE_BINARY_DIR}/_deps/onednn-build")
    add_subdirectory("${CPUWHEELS_ONEDNN_SOURCE}" "${_cpuwheels_onednn_build}" EXCLUDE_FROM_ALL)
    cpuwheels_tune_onednn_once()
  else()
    # It was built before, for another configuration or another source; modules are linked with what it shares
    # (shared.cmake).
    set(_cpuwheels_onednn_build "${CPUWHEELS_BUILT}/_deps/onednn-build")
    add_library(dnnl INTERFACE)
    # As oneDNN's own target has it: the compiler cache knows a file by the words of its command.
    target_include_directories(dnnl INTERFACE "${CPUWHEELS_ONEDNN_SOURCE}/src/../include")
    # As oneDNN's own project() has it; upstream includes from both.
    set(oneDNN_SOURCE_DIR "${CPUWHEELS_ONEDNN_SOURCE}")
    set(oneDNN_BINARY_DIR "${_cpuwheels_onednn_build}")
  endif()
  FetchContent_SetPopulated(
    oneDNN SOURCE_DIR "${CPUWHEELS_ONEDNN_SOURCE}" BINARY_DIR "${_cpuwheels_onednn_build}"
  )
endmacro()

# On some processors upstream populates oneDNN itself, without asking a provider, and corrects its sources: it is
# told where they are (the build's own copy), and its targets are tuned when all directories have been read.
if(CPUWHEELS_ONEDNN_BY_UPSTREAM)
  set(FETCHCONTENT_SOURCE_DIR_ONEDNN "${CPUWHEELS_ONEDNN_SOURCE}" CACHE PATH "")
endif()

function(cpuwheels_tune_onednn_once)
  get_property(_tuned GLOBAL PROPERTY CPUWHEELS_ONEDNN_TUNED)
  if(NOT _tuned AND TARGET dnnl AND "${CPUWHEELS_BUILT}" STREQUAL "")
    set_property(GLOBAL PROPERTY CPUWHEELS_ONEDNN_TUNED ON)
    set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CPUWHEELS_ONEDNN_UNUSED}")
    file(STRINGS "${CPUWHEELS_ONEDNN_UNUSED}" _unused REGEX "^[^#]")
    list(TRANSFORM _unused PREPEND "${CPUWHEELS_ONEDNN_SOURCE}/")
    cpuwheels_write_isa_floor()
    cpuwheels_set_unoptimised_apart("${_unused}")
    cpuwheels_tune_onednn("${CPUWHEELS_ONEDNN_SOURCE}" "${_unused}")
    cpuwheels_shrink_rare()
  endif()
endfunction()

# Takes files out of oneDNN's targets that no extension module links: it compiles all primitives, and only then
# leaves those out that were not asked for (ONEDNN_ENABLE_PRIMITIVE). They are archive members that the linker
# would pass over, so the modules are the same without them. CPUWHEELS_ONEDNN_UNUSED names a file with their paths
# below the sources, one per line; it is made from link maps (kernels/onednn_pruning.py). All targets get
# CPUWHEELS_SHARED_DEFINES, their precompiled headers, and the header that knows the least CPU.
function(cpuwheels_tune_onednn directory unused)
  get_property(_targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(_target IN LISTS _targets)
    get_target_property(_type ${_target} TYPE)
    if(_type STREQUAL "OBJECT_LIBRARY")
      get_target_property(_sources ${_target} SOURCES)
      list(REMOVE_ITEM _sources ${unused})
      # A target may lose all of its files, and then names no language by them.
      set_target_properties(${_target} PROPERTIES SOURCES "${_sources}" LINKER_LANGUAGE CXX)
      cpuwheels_leave_out_implementations(${_target})
      cpuwheels_tune_onednn_target(${_target})
    endif()
  endforeach()
  get_property(_directories DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(_directory IN LISTS _directories)
    cpuwheels_tune_onednn("${_directory}" "${unused}")
  endforeach()
endfunction()

function(cpuwheels_tune_onednn_target target)
  target_compile_definitions(${target} PRIVATE ${CPUWHEELS_SHARED_DEFINES})
  cpuwheels_precompile_headers(${target})
  cpuwheels_set_onednn_apart(${target})
  if(NOT "${CPUWHEELS_ONEDNN_FLOOR}" STREQUAL "")
    target_include_directories(${target} BEFORE PRIVATE "${CPUWHEELS_FLOOR}")
  endif()
endfunction()

# Makes the object files of a target independent of upstream's sources, so that a compiler cache has them for another
# vLLM, too: oneDNN includes nothing of upstream's, whose headers come first where upstream has its folders for all.
# CPUWHEELS_ONEDNN_LAUNCHER is the compilers' launcher for them, if there is such a cache.
function(cpuwheels_set_onednn_apart target)
  get_target_property(_folders ${target} INCLUDE_DIRECTORIES)
  if(_folders)
    set(_own "")
    foreach(_folder IN LISTS _folders)
      cmake_path(IS_PREFIX CMAKE_SOURCE_DIR "${_folder}" NORMALIZE _of_upstream)
      if(NOT _of_upstream)
        list(APPEND _own "${_folder}")
      endif()
    endforeach()
    set_target_properties(${target} PROPERTIES INCLUDE_DIRECTORIES "${_own}")
  endif()
  if(NOT "${CPUWHEELS_ONEDNN_LAUNCHER}" STREQUAL "")
    set_target_properties(
      ${target}
      PROPERTIES C_COMPILER_LAUNCHER "${CPUWHEELS_ONEDNN_LAUNCHER}"
                 CXX_COMPILER_LAUNCHER "${CPUWHEELS_ONEDNN_LAUNCHER}"
    )
  endif()
endfunction()

# Tells oneDNN's code which instruction sets every CPU has that can load the library: it asks for them where it chooses
# kernels, and the compiler then leaves out what is for older CPUs. CPUWHEELS_ONEDNN_FLOOR is the list of those sets, by
# oneDNN's names of them. A header of the same name is found first, and adds the answer to oneDNN's own.
set(CPUWHEELS_FLOOR "${CMAKE_BINARY_DIR}/narrow/onednn")
set(CPUWHEELS_FLOOR_HEADER "${CMAKE_CURRENT_LIST_DIR}/onednn/cpu_isa_traits.hpp.in")
function(cpuwheels_write_isa_floor)
  if("${CPUWHEELS_ONEDNN_FLOOR}" STREQUAL "")
    return()
  endif()
  list(TRANSFORM CPUWHEELS_ONEDNN_FLOOR PREPEND "isa == " OUTPUT_VARIABLE _sets)
  list(JOIN _sets " || " CPUWHEELS_IN_FLOOR)
  configure_file("${CPUWHEELS_FLOOR_HEADER}" "${CPUWHEELS_FLOOR}/cpu/x64/cpu_isa_traits.hpp" @ONLY)
endfunction()

# Compiles for size what oneDNN does not run for each call of an operator: what writes machine code, once for each new
# shape, by calls of an assembler, and what packs weights, once for each model. What runs for each call keeps its
# optimisation. CPUWHEELS_ONEDNN_RARE is a list of <target>=<regular expression>. What CPUWHEELS_FILE_OPTIONS has for one
# of these files comes after that.
function(cpuwheels_shrink_rare)
  foreach(_entry IN LISTS CPUWHEELS_ONEDNN_RARE)
    string(REGEX MATCH "^([^=]+)=(.+)$" _entry "${_entry}")
    if(TARGET "${CMAKE_MATCH_1}")
      set(_target ${CMAKE_MATCH_1})
      cpuwheels_shrink_files(${_target} "${CMAKE_MATCH_2}")
      cpuwheels_add_file_options(${_target})
    endif()
  endforeach()
endfunction()

function(cpuwheels_shrink_files target pattern)
  get_target_property(_others ${target} SOURCES)
  list(FILTER _others INCLUDE REGEX "\\.cpp$")
  set(_rare ${_others})
  list(FILTER _rare INCLUDE REGEX "${pattern}")
  list(REMOVE_ITEM _others ${_rare})
  set_source_files_properties(${_rare} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_FLAGS "")
  string(REGEX MATCH "-O[^ ]+" _optimised "${CMAKE_CXX_FLAGS_RELEASE}")
  # A precompiled header is bound to the optimisation of its target, so the target has that of most of its files.
  list(LENGTH _rare _number)
  list(LENGTH _others _number_of_others)
  if(_number GREATER _number_of_others)
    target_compile_options(${target} PRIVATE -Os)
    set(_different ${_others})
  else()
    set(_optimised -Os)
    set(_different ${_rare})
  endif()
  set_source_files_properties(
    ${_different} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS "${_optimised}" SKIP_PRECOMPILE_HEADERS ON
  )
endfunction()

# Compiles without optimisation what tells the assembler thousands of instructions and hardly computes, a few times in
# a process: GCC takes a third of the time, and makes code that packs better. CPUWHEELS_ONEDNN_UNOPTIMISED is
# <target>=<regular expression>.
#
# Most of what is left is the assembler's own header. CPUWHEELS_ONEDNN_TOGETHER is <number>=<regular expression>: files
# among them that are compiled together, and how many at once. Generated ones can be, since each defines a class alone.
#
# All form a target of their own, whose files include oneDNN's. Only what is known to be linked is compiled so: that is
# learned from the members of an archive (kernels/onednn_pruning.py).
set(CPUWHEELS_UNOPTIMISED "${CMAKE_CURRENT_LIST_DIR}/onednn/unoptimised")
function(cpuwheels_set_unoptimised_apart unused)
  if(NOT "${CPUWHEELS_ONEDNN_UNOPTIMISED}" MATCHES "^([^=]+)=(.+)$" OR "${unused}" STREQUAL "")
    return()
  endif()
  set(_target ${CMAKE_MATCH_1})
  set(_pattern "${CMAKE_MATCH_2}")
  if(NOT TARGET ${_target})
    return()
  endif()
  get_target_property(_sources ${_target} SOURCES)
  set(_moved ${_sources})
  list(REMOVE_ITEM _moved ${unused})
  list(FILTER _moved INCLUDE REGEX "${_pattern}")
  list(FILTER _moved INCLUDE REGEX "\\.cpp$")
  if(NOT _moved)
    return()
  endif()
  list(REMOVE_ITEM _sources ${_moved})
  set_target_properties(${_target} PROPERTIES SOURCES "${_sources}")
  cpuwheels_write_includes(_files ${_moved})

  get_target_property(_directory ${_target} SOURCE_DIR)
  foreach(_flags IN ITEMS CMAKE_CXX_FLAGS CMAKE_CXX_FLAGS_RELEASE)
    get_directory_property(${_flags} DIRECTORY "${_directory}" DEFINITION ${_flags})
  endforeach()
  set(_apart "${_target}_unoptimised")
  # Flags that are variables belong to a directory, so the target gets one of its own; so do definitions.
  add_subdirectory("${CPUWHEELS_UNOPTIMISED}" "${CMAKE_BINARY_DIR}/unoptimised" EXCLUDE_FROM_ALL)
  cpuwheels_copy_settings(${_target} ${_apart})
  get_directory_property(_definitions DIRECTORY "${_directory}" COMPILE_DEFINITIONS)
  target_compile_definitions(${_apart} PRIVATE ${_definitions})
  cpuwheels_tune_onednn_target(${_apart})
  # The C library checks nothing (_FORTIFY_SOURCE) without optimisation, and warns of it.
  target_compile_options(${_apart} PRIVATE -O0 -U_FORTIFY_SOURCE)
  target_sources(dnnl PRIVATE $<TARGET_OBJECTS:${_apart}>)
endfunction()

# Writes files that include oneDNN's, one or several in each. The text has no folder of the machine's, so that a
# compiler cache knows it again in another build; CMake's own unity builds have absolute paths.
function(cpuwheels_write_includes result)
  set(_number 1)
  set(_together "")
  if("${CPUWHEELS_ONEDNN_TOGETHER}" MATCHES "^([0-9]+)=(.+)$")
    set(_number ${CMAKE_MATCH_1})
    set(_together ${ARGN})
    list(FILTER _together INCLUDE REGEX "${CMAKE_MATCH_2}")
  endif()
  set(_alone ${ARGN})
  list(REMOVE_ITEM _alone ${_together})
  set(_written "")
  foreach(_source IN LISTS _alone)
    cmake_path(GET _source STEM _name)
    cpuwheels_write_include(_written ${_name} "${_source}")
  endforeach()
  set(_index 0)
  while(_together)
    list(SUBLIST _together 0 ${_number} _some)
    list(REMOVE_ITEM _together ${_some})
    cpuwheels_write_include(_written together_${_index} "${_some}")
    math(EXPR _index "${_index} + 1")
  endwhile()
  set(${result} "${_written}" PARENT_SCOPE)
endfunction()

function(cpuwheels_write_include list name sources)
  set(_text "")
  foreach(_source IN LISTS sources)
    cmake_path(RELATIVE_PATH _source BASE_DIRECTORY "${CPUWHEELS_ONEDNN_SOURCE}/src")
    string(APPEND _text "#include <${_source}>\n")
  endforeach()
  set(_file "${CMAKE_BINARY_DIR}/unoptimised/${name}.cpp")
  file(CONFIGURE OUTPUT "${_file}" CONTENT "${_text}" @ONLY)
  set(${list} "${${list}};${_file}" PARENT_SCOPE)
endfunction()
