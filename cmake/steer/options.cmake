# Compile options of upstream's that its files are compiled without, CPUWHEELS_WITHOUT_OPTIONS, and those that they are
# compiled with besides: all of them with CPUWHEELS_MORE_OPTIONS, some with CPUWHEELS_FILE_OPTIONS, a list of
# <option>=<regular expression>.
#
# docs/speed.md says why for each.
function(cpuwheels_change_options target)
  get_target_property(_options ${target} COMPILE_OPTIONS)
  if(NOT _options)
    set(_options "")
  endif()
  list(REMOVE_ITEM _options ${CPUWHEELS_WITHOUT_OPTIONS})
  list(APPEND _options ${CPUWHEELS_MORE_OPTIONS})
  set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${_options}")
  cpuwheels_add_file_options(${target})
endfunction()

# A file that several targets share has its options once: they belong to the file, not to a target.
function(cpuwheels_add_file_options target)
  get_target_property(_sources ${target} SOURCES)
  foreach(_entry IN LISTS CPUWHEELS_FILE_OPTIONS)
    string(REGEX MATCH "^(.+)=([^=]+)$" _entry "${_entry}")
    set(_option "${CMAKE_MATCH_1}")
    set(_files ${_sources})
    list(FILTER _files INCLUDE REGEX "${CMAKE_MATCH_2}")
    foreach(_file IN LISTS _files)
      get_property(_options SOURCE "${_file}" TARGET_DIRECTORY ${target} PROPERTY COMPILE_OPTIONS)
      if(NOT _option IN_LIST _options)
        set_property(SOURCE "${_file}" TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS "${_option}")
      endif()
    endforeach()
  endforeach()
endfunction()
