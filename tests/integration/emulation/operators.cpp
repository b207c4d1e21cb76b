// Operators of upstream's names that execute an instruction each, and then do what is expected of them.

#include <torch/library.h>

namespace {

bool with_avx2() {
  asm volatile("vpaddd %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
  return false;
}

void with_avx512() {
  asm volatile("vpaddd %%zmm0, %%zmm0, %%zmm0" ::: "xmm0");
  TORCH_CHECK(false, "not implemented");
}

void with_none() { TORCH_CHECK(false, "not implemented"); }

}  // namespace

TORCH_LIBRARY(_C, m) {
  m.def("is_onednn_acl_supported() -> bool", &with_avx2);
  m.def("static_scaled_fp8_quant() -> ()", &with_avx512);
  m.def("dynamic_scaled_fp8_quant() -> ()", &with_none);
}
