# Lists the symbols of an archive that are in <FOLDER>/called.txt, as linker options and as a version script.
#
# Run as a script with NM, ARCHIVE and FOLDER.
include("${CMAKE_CURRENT_LIST_DIR}/symbols.cmake")

file(STRINGS "${FOLDER}/called.txt" _called)
cpuwheels_symbols(_offered -g --defined-only "${ARCHIVE}")
set(_roots "")
foreach(_name IN LISTS _called)
  if(_name IN_LIST _offered)
    list(APPEND _roots ${_name})
  endif()
endforeach()
if(NOT _roots)
  message(FATAL_ERROR "cpuwheels: nothing of ${ARCHIVE} is called")
endif()
list(JOIN _roots ";\n    " _exports)
list(TRANSFORM _roots PREPEND "-Wl,-u,")
list(JOIN _roots "\n" _options)
file(WRITE "${FOLDER}/link.rsp" "${_options}\n")
file(WRITE "${FOLDER}/exports.map" "{\n  global:\n    ${_exports};\n  local:\n    *;\n};\n")
file(WRITE "${FOLDER}/empty.cpp" "")
