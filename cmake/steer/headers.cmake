# Precompiled headers for the modules that gain from them.
#
# CPUWHEELS_PRECOMPILED is a list of <module>=<header>[,<header>...]: each module has its own, because its instruction
# set is among the flags that a precompiled header is bound to. docs/performance.md has the measurements.
function(cpuwheels_precompile_headers module)
  foreach(_entry IN LISTS CPUWHEELS_PRECOMPILED)
    if(NOT _entry MATCHES "^${module}=(.+)$")
      continue()
    endif()
    string(REPLACE "," ";" _headers "${CMAKE_MATCH_1}")
    list(TRANSFORM _headers REPLACE "(.+)" "<\\1>")
    target_precompile_headers(${module} PRIVATE ${_headers})
    # These include little of torch, and some set macros before they do (CPU_CAPABILITY), which would come too late.
    get_target_property(_sources ${module} SOURCES)
    list(FILTER _sources INCLUDE REGEX "/sgl-kernels/")
    if(_sources)
      set_source_files_properties(${_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()
