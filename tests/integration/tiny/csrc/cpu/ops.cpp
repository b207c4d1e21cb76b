#ifndef __APPLE__
#include <numa.h>
#include <regex>
#endif
#include <torch/library.h>
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <iterator>
#include <sstream>
#include <stdexcept>

#include "helper.h"

#ifdef ARM_BF16_SUPPORT
#include <arm_neon.h>
#endif

#define EXPAND(name, module) TORCH_LIBRARY(name, module)

namespace {

at::Tensor scale(const at::Tensor& x, double factor) {
  TORCH_CHECK(x.scalar_type() == at::kFloat, "scale: float32 is needed, in " __FILE__);
  at::Tensor in = x.contiguous();
  at::Tensor out = at::empty_like(in);
  const float* source = in.data_ptr<float>();
  float* target = out.data_ptr<float>();
  const int64_t count = in.numel();
#pragma omp parallel for
  for (int64_t i = 0; i < count; ++i) {
    target[i] = multiply(source[i], static_cast<float>(factor));
  }
  return out;
}

#ifdef __APPLE__
int64_t numa_nodes() { return 1; }
#else
int64_t numa_nodes() { return numa_available() < 0 ? 1 : numa_num_configured_nodes(); }
#endif

int64_t count_words(const std::string& text) {
  // std::regex and the exception pull in parts of libstdc++ that are newer than the glibc floor.
  if (text.empty()) {
    throw std::invalid_argument("count_words: empty text");
  }
#ifdef __APPLE__
  // Torch uses nothing of std::regex, so nobody vouches for its symbols.
  std::stringstream words(text);
  return std::distance(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
#else
  const std::regex word("[a-z]+");
  return std::distance(std::sregex_iterator(text.begin(), text.end(), word), std::sregex_iterator());
#endif
}

#ifdef ARM_BF16_SUPPORT
// Products of bfloat16 by an instruction (BFDOT) that not every CPU has; eight of them at once.
double bf16_dot(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16, "bf16_dot: bfloat16 is needed");
  TORCH_CHECK(a.numel() == b.numel() && a.numel() % 8 == 0, "bf16_dot: eights are needed");
  const auto* left = reinterpret_cast<const bfloat16_t*>(a.data_ptr());
  const auto* right = reinterpret_cast<const bfloat16_t*>(b.data_ptr());
  float32x4_t sum = vdupq_n_f32(0);
  for (int64_t i = 0; i < a.numel(); i += 8) {
    sum = vbfdotq_f32(sum, vld1q_bf16(left + i), vld1q_bf16(right + i));
  }
  return vaddvq_f32(sum);
}
#endif

}  // namespace

EXPAND(TORCH_EXTENSION_NAME, m) {
  m.def("scale(Tensor x, float factor) -> Tensor");
  m.impl("scale", c10::DispatchKey::CPU, TORCH_FN(scale));
  m.def("numa_nodes() -> int", &numa_nodes);
  m.def("count_words(str text) -> int", &count_words);
#ifdef ARM_BF16_SUPPORT
  m.def("bf16_dot(Tensor a, Tensor b) -> float", &bf16_dot);
#endif
}
