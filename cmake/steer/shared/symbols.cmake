# Lists the symbols of object files or of an archive: of nm's output with an option, the names in their order.
function(cpuwheels_symbols result option)
  execute_process(
    COMMAND "${NM}" -P ${option} ${ARGN}
    OUTPUT_VARIABLE _output COMMAND_ERROR_IS_FATAL ANY
  )
  # "name type value size", one per line; archives add lines that name their members.
  string(REGEX MATCHALL "(^|\n)[A-Za-z_][A-Za-z0-9_]* [A-Za-z]" _found "${_output}")
  list(TRANSFORM _found REPLACE "^\n?([^ ]+) .*" "\\1")
  list(REMOVE_DUPLICATES _found)
  set(${result} "${_found}" PARENT_SCOPE)
endfunction()
