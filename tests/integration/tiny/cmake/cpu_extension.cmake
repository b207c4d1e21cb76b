include(FetchContent)
execute_process(COMMAND cat /proc/cpuinfo OUTPUT_VARIABLE CPUINFO COMMAND_ERROR_IS_FATAL ANY)
if(NOT CPUINFO MATCHES "tiny")
  message(FATAL_ERROR "the build read the machine's own CPU")
endif()

FetchContent_Declare(
  oneDNN
  GIT_REPOSITORY https://example.invalid/oneDNN.git
  GIT_TAG        v0.1
)
FetchContent_MakeAvailable(oneDNN)
add_library(dnnl_ext OBJECT csrc/cpu/helper.cpp)
set_target_properties(dnnl_ext PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(dnnl_ext dnnl)

function(tiny_module name)
  Python_add_library(${name} MODULE USE_SABI 3 WITH_SOABI csrc/cpu/ops.cpp)
  target_compile_options(${name} PRIVATE -fopenmp ${ARGN})
  target_compile_definitions(${name} PRIVATE TORCH_EXTENSION_NAME=${name})
  target_link_libraries(${name} PRIVATE torch ${TORCH_LIBRARIES} dnnl_ext numa gomp)
  install(TARGETS ${name} LIBRARY DESTINATION vllm COMPONENT ${name})
endfunction()

file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/gomp_shim")
file(GLOB torch_gomp "${TORCH_INSTALL_PREFIX}/lib/libgomp*" "${TORCH_INSTALL_PREFIX}/../torch.libs/libgomp*")
if(torch_gomp)
  list(GET torch_gomp 0 torch_gomp)
  file(CREATE_LINK "${torch_gomp}" "${CMAKE_BINARY_DIR}/gomp_shim/libgomp.so" SYMBOLIC)
endif()
tiny_module(_C -mavx2 -mfma)
tiny_module(_C_AVX2 -mavx2)

Python_add_library(spinloop MODULE USE_SABI 3.11 WITH_SOABI csrc/spinloop.cpp)
