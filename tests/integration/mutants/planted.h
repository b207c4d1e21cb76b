// Faults by name, and those that any operator can have where it writes its result.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdlib>
#include <limits>
#include <random>
#include <string>

inline const std::string planted = std::getenv("MUTANT") ? std::getenv("MUTANT") : "";

inline bool fault(const char* name) { return planted == name; }
inline bool fault(const std::string& operation, const char* name) { return planted == operation + ": " + name; }

// A tensor's values in double, contiguous; what is computed is stored by `store`, which rounds once.
inline at::Tensor wide(const at::Tensor& x) { return x.to(at::kDouble).contiguous(); }

inline at::Tensor truncated(const at::Tensor& value, at::ScalarType type) {
  at::Tensor single = value.to(at::kFloat);
  const int kept = type == at::kBFloat16 ? 16 : type == at::kHalf ? 13 : 1;
  const int32_t mask = static_cast<int32_t>(~((1u << kept) - 1));
  return single.view(at::kInt).bitwise_and(mask).view(at::kFloat).to(type);
}

inline at::Tensor end_of(at::Tensor x, bool last) {
  while (x.dim() > 0) x = x.select(0, last ? x.size(0) - 1 : 0);
  return x;
}

inline void nudge(const at::Tensor& out) {
  at::Tensor one = end_of(out, true);
  if (at::isFloatingType(one.scalar_type())) {
    const double step = one.scalar_type() == at::kFloat ? 0x1p-23 : one.scalar_type() == at::kHalf ? 0x1p-10 : 0x1p-7;
    one.copy_(one.to(at::kDouble) * (1 + step));
  } else {
    one.bitwise_xor_(1);
  }
}

inline void write(const at::Tensor& out, const at::Tensor& found, const std::string& operation) {
  static std::minstd_rand chance;
  at::Tensor before = out.clone();
  out.copy_(found);
  if (out.numel() == 0) return;
  if (fault(operation, "last element not written")) end_of(out, true).copy_(end_of(before, true));
  if (fault(operation, "last row not written") && out.size(0) > 1) out[-1].copy_(before[-1]);
  if (fault(operation, "writes past the end")) out.as_strided({1}, {1}, end_of(out, true).storage_offset() + 1).zero_();
  if (fault(operation, "writes before the start")) out.as_strided({1}, {1}, out.storage_offset() - 1).zero_();
  if (fault(operation, "another result now and then") && chance() % 128 < 64) nudge(out);
  if (fault(operation, "depends on threads") && at::get_num_threads() == 1) nudge(out);
}

inline void store(const at::Tensor& out, at::Tensor value, const std::string& operation) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (fault(operation, "not a number becomes 0")) value = value.nan_to_num(0.0, infinity, -infinity);
  if (fault(operation, "sign")) value = -value;
  const bool cut = fault(operation, "truncated");
  write(out, cut ? truncated(value, out.scalar_type()) : value.to(out.scalar_type()), operation);
}
