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
    # Another configuration of the same source has built it; modules are linked with what it shares (shared.cmake).
    set(_cpuwheels_onednn_build "${CPUWHEELS_BUILT}/_deps/onednn-build")
    add_library(dnnl INTERFACE)
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
    cpuwheels_shrink_generators()
    cpuwheels_write_isa_floor()
    cpuwheels_tune_onednn("${CPUWHEELS_ONEDNN_SOURCE}")
  endif()
endfunction()

# Takes files out of oneDNN's targets that no extension module links: it compiles all primitives, and only then
# leaves those out that were not asked for (ONEDNN_ENABLE_PRIMITIVE). They are archive members that the linker
# would pass over, so the modules are the same without them. CPUWHEELS_ONEDNN_UNUSED names a file with their paths
# below the sources, one per line; it is made from link maps (kernels/onednn_pruning.py). All targets get
# CPUWHEELS_SHARED_DEFINES, their precompiled headers, and the header that knows the least CPU.
function(cpuwheels_tune_onednn directory)
  set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CPUWHEELS_ONEDNN_UNUSED}")
  file(STRINGS "${CPUWHEELS_ONEDNN_UNUSED}" _unused REGEX "^[^#]")
  list(TRANSFORM _unused PREPEND "${CPUWHEELS_ONEDNN_SOURCE}/")
  get_property(_targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(_target IN LISTS _targets)
    get_target_property(_type ${_target} TYPE)
    if(_type STREQUAL "OBJECT_LIBRARY")
      get_target_property(_sources ${_target} SOURCES)
      list(REMOVE_ITEM _sources ${_unused})
      # A target may lose all of its files, and then names no language by them.
      set_target_properties(${_target} PROPERTIES SOURCES "${_sources}" LINKER_LANGUAGE CXX)
      target_compile_definitions(${_target} PRIVATE ${CPUWHEELS_SHARED_DEFINES})
      cpuwheels_precompile_headers(${_target})
      cpuwheels_set_onednn_apart(${_target})
      if(NOT "${CPUWHEELS_ONEDNN_FLOOR}" STREQUAL "")
        target_include_directories(${_target} BEFORE PRIVATE "${CPUWHEELS_FLOOR}")
      endif()
    endif()
  endforeach()
  get_property(_directories DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(_directory IN LISTS _directories)
    cpuwheels_tune_onednn("${_directory}")
  endforeach()
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

# Compiles for size what oneDNN runs only to write machine code, once for each new shape: calls of an assembler, by the
# hundred thousand. Upstream does so for some of these files ("files that don't need" optimisation). What runs for
# each call of an operator keeps its optimisation. CPUWHEELS_ONEDNN_GENERATORS is <target>=<regular expression>.
function(cpuwheels_shrink_generators)
  if(NOT "${CPUWHEELS_ONEDNN_GENERATORS}" MATCHES "^([^=]+)=(.+)$")
    return()
  endif()
  set(_target ${CMAKE_MATCH_1})
  set(_pattern "${CMAKE_MATCH_2}")
  if(NOT TARGET ${_target})
    return()
  endif()
  get_target_property(_others ${_target} SOURCES)
  set(_generators ${_others})
  list(FILTER _generators INCLUDE REGEX "${_pattern}")
  list(REMOVE_ITEM _others ${_generators})
  # A precompiled header is bound to the optimisation of its target, so the target has that of most of its files.
  string(REGEX MATCH "-O[^ ]+" _optimised "${CMAKE_CXX_FLAGS_RELEASE}")
  target_compile_options(${_target} PRIVATE -Os)
  set_source_files_properties(${_generators} TARGET_DIRECTORY ${_target} PROPERTIES COMPILE_FLAGS "")
  set_source_files_properties(
    ${_others} TARGET_DIRECTORY ${_target} PROPERTIES COMPILE_OPTIONS "${_optimised}" SKIP_PRECOMPILE_HEADERS ON
  )
endfunction()
