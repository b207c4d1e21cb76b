#include <numa.h>
#include <torch/library.h>
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <regex>
#include <stdexcept>

#include "helper.h"

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

int64_t numa_nodes() { return numa_available() < 0 ? 1 : numa_num_configured_nodes(); }

int64_t count_words(const std::string& text) {
  // std::regex and the exception pull in parts of libstdc++ that are newer than the glibc floor.
  if (text.empty()) {
    throw std::invalid_argument("count_words: empty text");
  }
  const std::regex word("[a-z]+");
  return std::distance(std::sregex_iterator(text.begin(), text.end(), word), std::sregex_iterator());
}

}  // namespace

EXPAND(TORCH_EXTENSION_NAME, m) {
  m.def("scale(Tensor x, float factor) -> Tensor");
  m.impl("scale", c10::DispatchKey::CPU, TORCH_FN(scale));
  m.def("numa_nodes() -> int", &numa_nodes);
  m.def("count_words(str text) -> int", &count_words);
}
