# Compile options of upstream's that its files are compiled without, CPUWHEELS_WITHOUT_OPTIONS, and those that they are
# compiled with besides, CPUWHEELS_MORE_OPTIONS.
#
# docs/performance.md says why for each.
function(cpuwheels_change_options target)
  get_target_property(_options ${target} COMPILE_OPTIONS)
  if(NOT _options)
    set(_options "")
  endif()
  list(REMOVE_ITEM _options ${CPUWHEELS_WITHOUT_OPTIONS})
  list(APPEND _options ${CPUWHEELS_MORE_OPTIONS})
  set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${_options}")
endfunction()
