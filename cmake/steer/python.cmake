# Answers upstream's find_package(Python) with the build interpreter and the sysroot's pinned headers.
#
# The modules use only the stable ABI, so the headers need not be those of the interpreter, and a machine
# whose Python came without headers can build too.
macro(cpuwheels_provide_python)
  set(Python_FOUND TRUE)
  set(Python_Interpreter_FOUND TRUE)
  set(Python_Development.Module_FOUND TRUE)
  set(Python_Development.SABIModule_FOUND TRUE)
  set(Python_EXECUTABLE "${CPUWHEELS_PYTHON}")
  set(Python_VERSION "${CPUWHEELS_PYTHON_VERSION}")
  string(REPLACE "." ";" _cpuwheels_version "${Python_VERSION}")
  list(GET _cpuwheels_version 0 Python_VERSION_MAJOR)
  list(GET _cpuwheels_version 1 Python_VERSION_MINOR)
  if(NOT TARGET Python::SABIModule)
    add_library(Python::SABIModule INTERFACE IMPORTED GLOBAL)
    target_include_directories(Python::SABIModule SYSTEM INTERFACE ${CPUWHEELS_PYTHON_INCLUDE_DIRS})
    if(APPLE)
      # As FindPython does it there: the interpreter's symbols, and those of torch's libomp, are found in the process.
      target_link_options(Python::SABIModule INTERFACE "LINKER:-undefined,dynamic_lookup")
    endif()
  endif()
endmacro()

# Python_add_library(<name> MODULE USE_SABI <version> [WITH_SOABI] <source>...), as FindPython documents it,
# for the one form that upstream uses: a stable-ABI module named <name>.abi3.so.
function(Python_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 _lib "MODULE;WITH_SOABI" "USE_SABI" "")
  if(NOT _lib_MODULE OR NOT _lib_USE_SABI)
    message(FATAL_ERROR "cpuwheels: ${name} is not a stable-ABI module; it cannot be part of an abi3 wheel")
  endif()
  # Without a minor version the macro is 3, "any 3.x" (Python/C API, Stable ABI); else the hexadecimal form.
  set(_api "${_lib_USE_SABI}")
  if(_api MATCHES "^([0-9]+)\\.([0-9]+)$")
    math(EXPR _api "(${CMAKE_MATCH_1} << 24) | (${CMAKE_MATCH_2} << 16)" OUTPUT_FORMAT HEXADECIMAL)
  endif()
  add_library(${name} MODULE ${_lib_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE Python::SABIModule)
  target_compile_definitions(${name} PRIVATE "Py_LIMITED_API=${_api}")
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".abi3.so")
endfunction()
