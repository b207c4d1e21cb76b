# Answers upstream's find_package(Torch) where the target's torch cannot run on this machine: with the headers of that
# torch, and with empty libraries of the names that PyTorch's wheels use (distributors add a version to them). What the
# modules need of torch is there when they are loaded; the audit looks for each symbol in the target's real libraries.
macro(cpuwheels_provide_torch)
  set(Torch_FOUND TRUE)
  set(TORCH_FOUND TRUE)
  set(TORCH_INSTALL_PREFIX "${CPUWHEELS_TORCH}")
  set(TORCH_INCLUDE_DIRS "${CPUWHEELS_TORCH}/include" "${CPUWHEELS_TORCH}/include/torch/csrc/api/include")
  set(TORCH_LIBRARIES torch)
  set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")
  cpuwheels_add_torch()
endmacro()

function(cpuwheels_add_torch)
  if(TARGET torch)
    return()
  endif()
  set(_folder "${CMAKE_BINARY_DIR}/torch")
  file(CONFIGURE OUTPUT "${_folder}/empty.cpp" CONTENT "" @ONLY)
  foreach(_name IN ITEMS c10 torch_cpu torch)
    add_library(${_name} SHARED "${_folder}/empty.cpp")
    set_target_properties(
      ${_name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${_folder}" SKIP_BUILD_RPATH ON INSTALL_RPATH ""
    )
  endforeach()
  target_link_libraries(torch INTERFACE torch_cpu c10)
  target_include_directories(torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_compile_options(torch INTERFACE ${TORCH_CXX_FLAGS})
endfunction()
