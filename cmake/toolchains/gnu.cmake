# What every GNU toolchain has in common. The values come from toolchain-values.cmake, which the build
# writes beside the build folder: it is read here, because CMake reads a toolchain file again, without
# the cache, for each of its own checks.
include("$ENV{CPUWHEELS_TOOLCHAIN_VALUES}")

set(CMAKE_C_COMPILER "${CPUWHEELS_CC}")
set(CMAKE_CXX_COMPILER "${CPUWHEELS_CXX}")
set(CMAKE_AR "${CPUWHEELS_AR}")
set(CMAKE_RANLIB "${CPUWHEELS_RANLIB}")
set(CMAKE_STRIP "${CPUWHEELS_STRIP}")
set(CMAKE_SYSROOT "${CPUWHEELS_SYSROOT}")
# Libraries and headers are looked for in the sysroot first, programs never there: those must run on this machine.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# Paths of this build never reach the result: each root has a stable name instead.
set(_maps "")
foreach(_map IN LISTS CPUWHEELS_PREFIX_MAPS)
  string(APPEND _maps " -ffile-prefix-map=${_map}")
endforeach()
set(CMAKE_C_FLAGS_INIT "${CPUWHEELS_COMPILE_FLAGS}${_maps}")
set(CMAKE_CXX_FLAGS_INIT "${CPUWHEELS_COMPILE_FLAGS} ${CPUWHEELS_CXX_FLAGS}${_maps}")
set(CMAKE_ASM_FLAGS_INIT "${CPUWHEELS_COMPILE_FLAGS}${_maps}")

foreach(_kind EXE SHARED MODULE)
  set(CMAKE_${_kind}_LINKER_FLAGS_INIT "${CPUWHEELS_LINK_FLAGS}")
endforeach()
# A plain variable: the compiler's platform file would set the cache entry after this file is read.
set(CMAKE_CXX_STANDARD_LIBRARIES "${CPUWHEELS_CXX_LIBRARIES}")

# Archives without times and owners (the D of GNU ar).
set(CMAKE_C_ARCHIVE_CREATE "<CMAKE_AR> qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_C_ARCHIVE_APPEND "<CMAKE_AR> qD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "<CMAKE_AR> qD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_C_ARCHIVE_FINISH "<CMAKE_RANLIB> -D <TARGET>")
set(CMAKE_CXX_ARCHIVE_FINISH "<CMAKE_RANLIB> -D <TARGET>")
