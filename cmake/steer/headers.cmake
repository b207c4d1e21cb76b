# Lets the files of a target read less of torch where they include all of it: tensors and the dispatcher, not the
# modules, optimisers and data loaders that no kernel calls. GCC makes the functions that headers use anew in every
# file, also with a precompiled header.
#
# CPUWHEELS_TORCH_ALL lists the headers that stand in for torch/all.h, CPUWHEELS_TORCH_WITHOUT the ones that these do not
# read: a file that includes one by name has it still. A header in CPUWHEELS_EMPTY_HEADERS is empty for everyone.
function(cpuwheels_narrow_torch target)
  if("${CPUWHEELS_TORCH_ALL}${CPUWHEELS_EMPTY_HEADERS}" STREQUAL "")
    return()
  endif()
  set(_folder "${CMAKE_BINARY_DIR}/narrow")
  foreach(_header IN LISTS CPUWHEELS_EMPTY_HEADERS)
    file(CONFIGURE OUTPUT "${_folder}/${_header}" CONTENT "// Empty.\n" @ONLY)
  endforeach()
  if(NOT "${CPUWHEELS_TORCH_ALL}" STREQUAL "")
    list(TRANSFORM CPUWHEELS_TORCH_ALL REPLACE "(.+)" "#include <\\1>\n" OUTPUT_VARIABLE _includes)
    list(JOIN _includes "" _text)
    set(_reading "CPUWHEELS_READS_TORCH_ALL")
    string(CONCAT _text "#pragma once\n#define ${_reading}\n" "${_text}" "#undef ${_reading}\n")
    file(CONFIGURE OUTPUT "${_folder}/torch/all.h" CONTENT "${_text}" @ONLY)
    foreach(_header IN LISTS CPUWHEELS_TORCH_WITHOUT)
      set(_text "#ifndef ${_reading}\n#include_next <${_header}>\n#endif\n")
      file(CONFIGURE OUTPUT "${_folder}/${_header}" CONTENT "${_text}" @ONLY)
    endforeach()
  endif()
  target_include_directories(${target} BEFORE PRIVATE "${_folder}")
endfunction()

# Precompiled headers for the files that gain from them.
#
# CPUWHEELS_PRECOMPILED is a list of <target>[:<folder>]=[<header>,...]. Each target has its own, because its
# instruction set is among the flags that a precompiled header is bound to. With a folder it is for the sources in
# that folder alone, which then form a target of their own (CMake has one precompiled header for each target), also
# if they are to have none: some set macros before they include torch, which would come too late.
# docs/performance.md has the measurements.
function(cpuwheels_precompile_headers target)
  set(_whole "")
  foreach(_entry IN LISTS CPUWHEELS_PRECOMPILED)
    if(_entry MATCHES "^${target}:([^=]+)=(.*)$")
      set(_headers "${CMAKE_MATCH_2}")
      cpuwheels_set_apart(${target} "${CMAKE_MATCH_1}" _apart)
      if(_apart AND NOT _headers STREQUAL "")
        cpuwheels_add_precompiled(${_apart} "${_headers}")
      endif()
    elseif(_entry MATCHES "^${target}=(.+)$")
      set(_whole "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  if(_whole)
    cpuwheels_add_precompiled(${target} "${_whole}")
    # Includes nothing of torch.
    get_target_property(_sources ${target} SOURCES)
    list(FILTER _sources INCLUDE REGEX "/cpu_isa\\.cpp$")
    set_property(SOURCE ${_sources} TARGET_DIRECTORY ${target} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

function(cpuwheels_add_precompiled target headers)
  string(REPLACE "," ";" _headers "${headers}")
  list(TRANSFORM _headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  target_precompile_headers(${target} PRIVATE ${_headers})
  # Lets a compiler cache preprocess files with such a header; it changes nothing else (GCC's manual, Preprocessor
  # Options).
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endfunction()

# Moves the sources of a target that lie in a folder into an object library with the same settings.
function(cpuwheels_set_apart target folder result)
  set(${result} "" PARENT_SCOPE)
  get_target_property(_sources ${target} SOURCES)
  set(_moved ${_sources})
  list(FILTER _moved INCLUDE REGEX "/${folder}/[^/]+$")
  if(NOT _moved)
    return()
  endif()
  list(REMOVE_ITEM _sources ${_moved})
  set(_apart "${target}_${folder}")
  add_library(${_apart} OBJECT ${_moved})
  cpuwheels_copy_settings(${target} ${_apart})
  set_target_properties(${target} PROPERTIES SOURCES "${_sources};$<TARGET_OBJECTS:${_apart}>")
  set(${result} "${_apart}" PARENT_SCOPE)
endfunction()

# Gives a target the settings of another one whose files it compiles, except what belongs to the other's directory.
function(cpuwheels_copy_settings from to)
  foreach(_property IN ITEMS COMPILE_DEFINITIONS COMPILE_OPTIONS INCLUDE_DIRECTORIES LINK_LIBRARIES CXX_STANDARD
                             CXX_EXTENSIONS)
    get_target_property(_value ${from} ${_property})
    # Off is a value, too.
    if(NOT "${_value}" MATCHES "(^|-)NOTFOUND$")
      set_target_properties(${to} PROPERTIES ${_property} "${_value}")
    endif()
  endforeach()
  set_target_properties(${to} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
