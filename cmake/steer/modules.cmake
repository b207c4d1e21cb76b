# Settings for upstream's extension modules, made after all of them exist, and the list of them.
function(cpuwheels_tune_modules)
  get_property(_targets DIRECTORY "${CMAKE_SOURCE_DIR}" PROPERTY BUILDSYSTEM_TARGETS)
  set(_modules "")
  cpuwheels_tune_onednn_once()
  cpuwheels_share_archive()
  foreach(_target IN LISTS _targets)
    get_target_property(_type ${_target} TYPE)
    if(_type MATCHES "^(MODULE|OBJECT)_LIBRARY$")
      cpuwheels_change_options(${_target})
      cpuwheels_narrow_torch(${_target})
    endif()
    if(_type STREQUAL "MODULE_LIBRARY")
      list(APPEND _modules ${_target})
      # Upstream would put the build folder and torch's into RUNPATH; torch is loaded before any of these.
      set_target_properties(${_target} PROPERTIES SKIP_BUILD_RPATH ON INSTALL_RPATH "")
      if(APPLE)
        # torch's libraries lie there once both are installed; vLLM imports torch first in any case.
        target_link_options(${_target} PRIVATE "LINKER:-rpath,@loader_path/../torch/lib")
      else()
        # What was linked, and from which archive members. Functions that nothing refers to are left out: of those that
        # have sections of their own, as libstdc++'s and all instantiated templates do.
        target_link_options(
          ${_target} PRIVATE "LINKER:--gc-sections" "LINKER:-Map=${CMAKE_BINARY_DIR}/${_target}.map"
        )
      endif()
      cpuwheels_split_attention(${_target})
      cpuwheels_precompile_headers(${_target})
      cpuwheels_use_shared(${_target})
    endif()
  endforeach()
  list(SORT _modules)
  list(JOIN _modules "\n" _lines)
  file(WRITE "${CMAKE_BINARY_DIR}/cpuwheels-modules.txt" "${_lines}\n")
endfunction()
