# Lists the symbols of an archive that some object files call, as linker options and as a version script.
#
# Run as a script with NM, ARCHIVE, OBJECTS (divided by "|") and FOLDER.
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

string(REPLACE "|" ";" _objects "${OBJECTS}")
cpuwheels_symbols(_called -u ${_objects})
cpuwheels_symbols(_offered -g --defined-only "${ARCHIVE}")
set(_roots "")
foreach(_name IN LISTS _called)
  if(_name IN_LIST _offered)
    list(APPEND _roots ${_name})
  endif()
endforeach()
if(NOT _roots)
  message(FATAL_ERROR "cpuwheels: nothing of ${ARCHIVE} is called by ${OBJECTS}")
endif()
list(SORT _roots)
list(JOIN _roots ";\n    " _exports)
list(TRANSFORM _roots PREPEND "-Wl,-u,")
list(JOIN _roots "\n" _options)
file(MAKE_DIRECTORY "${FOLDER}")
file(WRITE "${FOLDER}/link.rsp" "${_options}\n")
file(WRITE "${FOLDER}/exports.map" "{\n  global:\n    ${_exports};\n  local:\n    *;\n};\n")
file(WRITE "${FOLDER}/empty.cpp" "")
