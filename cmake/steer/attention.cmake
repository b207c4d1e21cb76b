# Divides csrc/cpu/cpu_attn.cpp, by far the largest file, into several translation units.
#
# It instantiates its main loop for every instruction set, type and head size. Here the file is included by one
# that lets it only declare them (attention/main.cpp.in), and each part (attention/part.cpp.in) makes its share, as
# upstream's own dispatch lists them. CPUWHEELS_ATTENTION_PARTS is a list of <module>=<number of parts>.
set(CPUWHEELS_ATTENTION "${CMAKE_CURRENT_LIST_DIR}/attention")

function(cpuwheels_split_attention module)
  get_target_property(_sources ${module} SOURCES)
  set(_whole ${_sources})
  list(FILTER _whole INCLUDE REGEX "(^|/)csrc/cpu/cpu_attn\\.cpp$")
  if(NOT _whole OR NOT ";${CPUWHEELS_ATTENTION_PARTS};" MATCHES ";${module}=([0-9]+);")
    return()
  endif()
  set(CPUWHEELS_PARTS ${CMAKE_MATCH_1})
  get_filename_component(_whole_path "${_whole}" ABSOLUTE BASE_DIR "${CMAKE_SOURCE_DIR}")
  file(READ "${_whole_path}" _text)
  if(NOT _text MATCHES "AttentionMainLoop<attn_impl> mainloop;[ \n]+mainloop\\(&input\\);")
    message(STATUS "cpuwheels: cpu_attn.cpp of this version starts its main loop otherwise; it stays one file")
    return()
  endif()
  # Named as a source, below the include path: neither these files nor their objects tell where they were made.
  file(RELATIVE_PATH CPUWHEELS_WHOLE "${CMAKE_SOURCE_DIR}/csrc" "${_whole_path}")
  set(_folder "${CMAKE_BINARY_DIR}/attention/${module}")
  list(REMOVE_ITEM _sources ${_whole})
  configure_file("${CPUWHEELS_ATTENTION}/main.cpp.in" "${_folder}/cpu_attn.cpp" @ONLY)
  list(APPEND _sources "${_folder}/cpu_attn.cpp")
  math(EXPR _last "${CPUWHEELS_PARTS} - 1")
  foreach(CPUWHEELS_PART RANGE ${_last})
    configure_file("${CPUWHEELS_ATTENTION}/part.cpp.in" "${_folder}/cpu_attn_${CPUWHEELS_PART}.cpp" @ONLY)
    list(APPEND _sources "${_folder}/cpu_attn_${CPUWHEELS_PART}.cpp")
  endforeach()
  set_target_properties(${module} PROPERTIES SOURCES "${_sources}")
endfunction()
