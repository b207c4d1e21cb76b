# Hands over Arm Compute Library, which the build compiled before; where it could not be had, oneDNN goes without.
#
# CPUWHEELS_ACL is its folder, or empty. What upstream sets after having compiled it is set here, and upstream's own
# commands are skipped (patches/0002-acl-from-the-build.patch).
if(NOT "${CPUWHEELS_ACL}" STREQUAL "")
  set(ENV{ACL_ROOT_DIR} "${CPUWHEELS_ACL}")
  set(ONEDNN_AARCH64_USE_ACL ON CACHE BOOL "")
  add_compile_definitions(VLLM_USE_ACL)
endif()
