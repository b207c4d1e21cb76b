# Apple silicon, built on a Mac or elsewhere. The values come from toolchain-values.cmake, as in gnu.cmake.
include("$ENV{CPUWHEELS_TOOLCHAIN_VALUES}")

set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
# The compiler's flags name the oldest macOS and the machine; CMake would add what it finds on a Mac that builds.
set(CMAKE_OSX_DEPLOYMENT_TARGET "" CACHE STRING "" FORCE)
set(CMAKE_OSX_ARCHITECTURES "" CACHE STRING "" FORCE)

set(CMAKE_C_COMPILER "${CPUWHEELS_CC}")
set(CMAKE_CXX_COMPILER "${CPUWHEELS_CXX}")
set(CMAKE_AR "${CPUWHEELS_AR}")
set(CMAKE_RANLIB "${CPUWHEELS_RANLIB}")
set(CMAKE_STRIP "${CPUWHEELS_STRIP}")
if(NOT CMAKE_HOST_APPLE)
  # CMake wants one to be there; only installing would run it, and nothing is installed from here.
  set(CMAKE_INSTALL_NAME_TOOL "${CPUWHEELS_STRIP}")
endif()
# Nothing is looked for among the building machine's own libraries.
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)

# Paths of this build never reach the result: each root has a stable name instead.
set(_maps "")
foreach(_map IN LISTS CPUWHEELS_PREFIX_MAPS)
  string(APPEND _maps " -ffile-prefix-map=${_map}")
endforeach()
set(CMAKE_C_FLAGS_INIT "${CPUWHEELS_COMPILE_FLAGS}${_maps}")
set(CMAKE_CXX_FLAGS_INIT "${CPUWHEELS_COMPILE_FLAGS} ${CPUWHEELS_CXX_FLAGS}${_maps}")
foreach(_kind EXE SHARED MODULE)
  set(CMAKE_${_kind}_LINKER_FLAGS_INIT "${CPUWHEELS_LINK_FLAGS}")
endforeach()
set(CMAKE_CXX_STANDARD_LIBRARIES "${CPUWHEELS_CXX_LIBRARIES}")
