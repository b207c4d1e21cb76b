# Compile options of upstream's that its files are compiled without: CPUWHEELS_WITHOUT_OPTIONS.
#
# docs/performance.md says why for each.
function(cpuwheels_drop_options target)
  get_target_property(_options ${target} COMPILE_OPTIONS)
  if(_options)
    list(REMOVE_ITEM _options ${CPUWHEELS_WITHOUT_OPTIONS})
    set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${_options}")
  endif()
endfunction()
