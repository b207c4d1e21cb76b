// Some of upstream's files, in which upstream.toml plants faults, and their operators.

#include "planted.h"

#include "activation.cpp"
#include "layernorm.cpp"

#include <torch/library.h>

TORCH_LIBRARY(_C, m) {
  m.def("silu_and_mul(Tensor! out, Tensor input) -> ()", &silu_and_mul);
  m.def("gelu_and_mul(Tensor! out, Tensor input) -> ()", &gelu_and_mul);
  m.def("gelu_tanh_and_mul(Tensor! out, Tensor input) -> ()", &gelu_tanh_and_mul);
  m.def("gelu_tanh(Tensor! out, Tensor input) -> ()", &gelu_tanh);
  m.def("gelu_new(Tensor! out, Tensor input) -> ()", &gelu_new);
  m.def("gelu_fast(Tensor! out, Tensor input) -> ()", &gelu_fast);
  m.def("gelu_quick(Tensor! out, Tensor input) -> ()", &gelu_quick);
  m.def("rms_norm(Tensor! out, Tensor input, Tensor? weight, float epsilon) -> ()", &rms_norm);
  m.def("fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor? weight, float epsilon) -> ()",
        &fused_add_rms_norm);
}
