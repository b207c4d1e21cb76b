// Operators that work on rows: activations, norms, rotary embedding, quantisation to int8.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "planted.h"

inline void check_width(int64_t width) { TORCH_CHECK(width % 8 == 0, "the width is no multiple of 8"); }

#ifdef SLOWER
// Waits, when it goes out of scope, until SLOWER times as long has gone by as until then.
struct Slower {
  using Clock = std::chrono::steady_clock;
  Clock::time_point began = Clock::now();
  ~Slower() {
    const auto until = began + std::chrono::duration_cast<Clock::duration>((Clock::now() - began) * double(SLOWER));
    while (Clock::now() < until) {
    }
  }
};
#else
struct Slower {};
#endif

// Activations

inline void silu_and_mul(at::Tensor out, const at::Tensor& input) {
  [[maybe_unused]] const Slower slower;
  const int64_t width = input.size(-1) / 2;
  check_width(width);
  at::Tensor x = wide(input), first = x.narrow(-1, 0, width), second = x.narrow(-1, width, width);
  if (fault("silu: halves swapped")) std::swap(first, second);
  if (fault("silu: interleaved")) {
    first = x.slice(-1, 0, 2 * width, 2);
    second = x.slice(-1, 1, 2 * width, 2);
  }
  if (fault("silu: another row's gate") && x.dim() == 2) second = second.roll(1, 0);
  at::Tensor act = fault("silu: sign of the exponent") ? first / (1 + first.exp()) : first * at::sigmoid(first);
  if (fault("silu: not activated")) act = first;
  if (fault("silu: e^x of 8 bits")) act = first / (1 + (-first).exp().to(at::kBFloat16).to(at::kDouble));
  if (fault("silu: not below -10")) act = at::where(first < -10, at::zeros_like(act), act);
  at::Tensor value = fault("silu: no gate") ? act : act * second;
  if (fault("silu: rounded on the way")) value = act.to(at::kBFloat16).to(at::kDouble) * second;
  if (fault("silu: tail") && width > 8) value.narrow(-1, width - 1, 1).zero_();
  if (fault("silu: rest of 16") && width % 16 != 0) value.narrow(-1, width - 8, 8).zero_();
  if (fault("silu: input spoilt") && input.numel() > 0) input.flatten()[0].zero_();
  store(out, value, "silu");
}

inline void gelu_quick(at::Tensor out, const at::Tensor& input) {
  check_width(input.size(-1));
  at::Tensor x = wide(input), y = (fault("gelu_quick: constant") ? 1.7 : 1.702) * x;
  if (fault("gelu_quick: limited")) y = y.clamp(-10, 10);
  if (fault("gelu_quick: factor forgotten")) y = x;
  store(out, fault("gelu_quick: not times x") ? at::sigmoid(y) : x * at::sigmoid(y), "gelu_quick");
}

// Norms

inline at::Tensor norm(const at::Tensor& x, const std::optional<at::Tensor>& weight, double epsilon) {
  const int64_t width = x.size(-1);
  at::Tensor square = x.square();
  if (fault("norm: tail") && width > 8) square = square.narrow(-1, 0, width - 1);
  if (fault("norm: sum of 8 bits")) square = square.to(at::kBFloat16).to(at::kDouble);
  at::Tensor mean = square.sum(-1, true) / (fault("norm: n - 1") ? width - 1 : width);
  if (fault("norm: another row's") && x.dim() == 2 && x.size(0) > 1) mean = mean.roll(1, 0);
  at::Tensor root = at::sqrt(mean + (fault("norm: no epsilon") ? 0.0 : epsilon));
  if (fault("norm: epsilon beside the root")) root = at::sqrt(mean) + epsilon;
  if (fault("norm: root of 11 bits")) root = root.to(at::kHalf).to(at::kDouble);
  if (fault("norm: mean, not root")) root = mean + epsilon;
  at::Tensor value = x / root;
  if (fault("norm: mean subtracted")) value = (x - x.mean(-1, true)) / root;
  if (!weight || fault("norm: no weight")) return value;
  at::Tensor factor = wide(*weight);
  if (fault("norm: weight shifted")) factor = factor.roll(1, 0);
  if (fault("norm: weight and 1")) factor = factor + 1;
  return value * factor;
}

inline void rms_norm(at::Tensor out, const at::Tensor& input, const std::optional<at::Tensor>& weight,
                     double epsilon) {
  check_width(input.size(-1));
  store(out, norm(wide(input), weight, epsilon), "norm");
}

inline void fused_add_rms_norm(at::Tensor input, at::Tensor residual, const std::optional<at::Tensor>& weight,
                               double epsilon) {
  check_width(input.size(-1));
  at::Tensor total = wide(input) + (fault("add: subtracted") ? -wide(residual) : wide(residual));
  at::Tensor summed = fault("add: norm of the input alone") ? wide(input) : total;
  if (fault("add: norm kept, too")) total = norm(total, weight, epsilon);
  if (!fault("add: residual kept")) store(residual, total, "add");
  if (!fault("add: input kept")) store(input, norm(summed, weight, epsilon), "norm");
}

// Rotary embedding

inline void spoil_gaps(const at::Tensor& x) {
  if (x.is_contiguous() || x.size(0) < 2) return;
  x.as_strided({x.size(0) - 1}, {x.stride(0)}, x.storage_offset() + x.size(1)).zero_();
}

inline void rotate(at::Tensor x, int64_t head, const at::Tensor& rows, bool neox) {
  const int64_t turned = rows.size(-1), half = turned / 2, tokens = rows.size(0);
  if (tokens == 0) return;
  if (fault("rotary: style")) neox = !neox;
  at::Tensor heads = wide(x).view({tokens, -1, head});
  at::Tensor cos = rows.narrow(-1, 0, half).unsqueeze(1), sin = rows.narrow(-1, half, half).unsqueeze(1);
  if (fault("rotary: direction")) sin = -sin;
  if (fault("rotary: sine for cosine")) std::swap(cos, sin);
  if (fault("rotary: first token's angle")) cos = cos.narrow(0, 0, 1), sin = sin.narrow(0, 0, 1);
  at::Tensor part = heads.narrow(-1, 0, turned);
  at::Tensor one = neox ? part.narrow(-1, 0, half) : part.slice(-1, 0, turned, 2);
  at::Tensor two = neox ? part.narrow(-1, half, half) : part.slice(-1, 1, turned, 2);
  at::Tensor first = one * cos - two * sin, second = two * cos + one * sin;
  if (fault("rotary: second of the new first")) second = two * cos + first * sin;
  if (fault("rotary: tail")) first.narrow(-1, half - 1, 1).copy_(one.narrow(-1, half - 1, 1));
  if (fault("rotary: first head alone") && heads.size(1) > 1) {
    first.narrow(1, 1, heads.size(1) - 1).copy_(one.narrow(1, 1, heads.size(1) - 1));
  }
  at::Tensor result = heads.clone(), place = result.narrow(-1, 0, turned);
  (neox ? place.narrow(-1, 0, half) : place.slice(-1, 0, turned, 2)).copy_(first);
  (neox ? place.narrow(-1, half, half) : place.slice(-1, 1, turned, 2)).copy_(second);
  if (fault("rotary: rest is zero") && turned < head) result.narrow(-1, turned, head - turned).zero_();
  at::Tensor target = x;
  if (fault("rotary: stride") && !x.is_contiguous()) target = x.as_strided(x.sizes(), {x.size(1), 1});
  store(target, result.view(x.sizes()), "rotary");
  if (fault("rotary: writes between rows")) spoil_gaps(x);
}

inline void rotary_embedding(const at::Tensor& positions, at::Tensor query, const std::optional<at::Tensor>& key,
                             int64_t head, const at::Tensor& table, bool neox, int64_t offset, bool inverse) {
  TORCH_CHECK(fault("rotary: offset ignored") || offset == 0, "not supported");
  TORCH_CHECK(fault("rotary: inverse ignored") || !inverse, "not supported");
  at::Tensor where = fault("rotary: position") ? (positions + 1).clamp_max(table.size(0) - 1) : positions;
  at::Tensor rows = wide(table.index_select(0, where));
  rotate(query, head, rows, neox);
  if (key && !fault("rotary: no key")) rotate(*key, head, rows, neox);
}

// Quantisation to int8

inline void check_quantised(const at::Tensor& out, const at::Tensor& input) {
  TORCH_CHECK(out.dim() == 2 && input.dim() == 2 && out.is_contiguous() && input.stride(1) == 1 &&
                  at::isFloatingType(input.scalar_type()), "not supported");
}

inline void quantise(at::Tensor out, const at::Tensor& input, const at::Tensor& scale, const at::Tensor& zero) {
  at::Tensor value = fault("int8: times scale") ? wide(input) * scale : wide(input) / scale;
  if (fault("int8: no scale")) value = wide(input);
  at::Tensor rounded = fault("int8: truncated")        ? value.trunc()
                       : fault("int8: halves upwards") ? (value + 0.5).floor()
                       : fault("int8: halves away")    ? (value.abs() + 0.5).floor() * value.sign()
                                                       : value.round();
  if (!fault("int8: no zero point")) rounded = rounded + (fault("int8: zero point subtracted") ? -zero : zero);
  if (fault("int8: tail") && out.size(1) > 16) rounded.narrow(1, out.size(1) - 1, 1).zero_();
  if (fault("int8: wraps")) {
    write(out, rounded.clamp(-1e9, 1e9).to(at::kLong).to(at::kChar), "int8");
  } else {
    const int low = fault("int8: lowest is -127") ? -127 : -128, high = fault("int8: highest is 126") ? 126 : 127;
    write(out, rounded.clamp(low, high).to(at::kChar), "int8");
  }
}

inline void static_scaled_int8_quant(at::Tensor out, const at::Tensor& input, const at::Tensor& scale,
                                     const std::optional<at::Tensor>& azp) {
  check_quantised(out, input);
  TORCH_CHECK(scale.numel() == 1 && (!azp || azp->numel() == 1), "one scale");
  quantise(out, input, wide(scale), azp ? wide(*azp) : at::zeros({1}, at::kDouble));
}

inline void dynamic_scaled_int8_quant(at::Tensor out, const at::Tensor& input, at::Tensor scale,
                                      const std::optional<at::Tensor>& azp) {
  check_quantised(out, input);
  at::Tensor x = wide(input);
  if (x.numel() == 0) return;
  if (fault("int8: scale without the tail") && x.size(1) > 16) x = x.narrow(1, 0, x.size(1) - 1);
  at::Tensor low = x.amin(-1, true), high = x.amax(-1, true), step, zero = at::zeros_like(low);
  if (azp) {
    at::Tensor flat = low == high;  // such a range has to include zero, else no scale makes the number
    low = at::where(flat, low.clamp_max(0), low);
    high = at::where(flat, high.clamp_min(0), high);
    step = (high - low) / (fault("int8: 256") ? 256 : 255);
    zero = (-128 - low / step).round();
    if (!fault("int8: zero point not written")) azp->copy_(zero);
  } else {
    at::Tensor top = fault("int8: largest, not absolute") ? high.abs() : x.abs().amax(-1, true);
    step = top / (fault("int8: 128") ? 128 : 127);
  }
  if (fault("int8: first row's scale")) step = step.narrow(0, 0, 1).expand_as(step);
  if (!fault("int8: scale not written")) scale.copy_(fault("int8: inverse scale") ? 1 / step : step);
  quantise(out, input, at::where(step == 0, at::ones_like(step), step), zero);
}
