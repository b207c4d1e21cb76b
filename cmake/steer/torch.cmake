# Answers upstream's find_package(Torch) where the target's torch cannot run on this machine, with the headers and
# libraries of that torch. They have PyTorch's names, also where a distributor's have others.
macro(cpuwheels_provide_torch)
  set(Torch_FOUND TRUE)
  set(TORCH_FOUND TRUE)
  set(TORCH_INSTALL_PREFIX "${CPUWHEELS_TORCH}")
  set(TORCH_INCLUDE_DIRS "${CPUWHEELS_TORCH}/include" "${CPUWHEELS_TORCH}/include/torch/csrc/api/include")
  set(TORCH_LIBRARIES torch)
  set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")
  cpuwheels_import_torch()
endmacro()

function(cpuwheels_import_torch)
  if(TARGET torch)
    return()
  endif()
  foreach(_name IN ITEMS c10 torch_cpu torch)
    set(_file "${CPUWHEELS_TORCH}/lib/lib${_name}${CMAKE_SHARED_LIBRARY_SUFFIX}")
    add_library(${_name} SHARED IMPORTED GLOBAL)
    set_target_properties(${_name} PROPERTIES IMPORTED_LOCATION "${_file}")
  endforeach()
  set_target_properties(
    torch PROPERTIES INTERFACE_LINK_LIBRARIES "torch_cpu;c10"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIRS}" INTERFACE_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIRS}"
    INTERFACE_COMPILE_OPTIONS "${TORCH_CXX_FLAGS}"
  )
endfunction()
