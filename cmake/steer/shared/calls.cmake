# Lists the symbols that some object files leave to others, one per line and sorted, as <FOLDER>/called.txt.
#
# Run as a script with NM, OBJECTS (divided by "|") and FOLDER.
include("${CMAKE_CURRENT_LIST_DIR}/symbols.cmake")

string(REPLACE "|" ";" _objects "${OBJECTS}")
cpuwheels_symbols(_called -u ${_objects})
list(SORT _called)
list(JOIN _called "\n" _lines)
file(MAKE_DIRECTORY "${FOLDER}")
file(WRITE "${FOLDER}/called.txt" "${_lines}\n")
