// Attention with a paged cache; a block holds the keys of a head, one component after the other, then its values.
#pragma once

#include "planted.h"

inline bool has_kernel(const std::string& isa, int64_t size, const std::string& cache) {
  const bool known = isa == "vec" || isa == "vec16";
  return known && cache == "auto" && size % 16 == 0 && size >= 32 && size <= 512;
}

inline bool has_isa(std::string isa) { return isa == "vec" || isa == "vec16"; }

// The plan is the number of threads that it is for, and what the size of a block is a multiple of.
inline at::Tensor plan(int64_t, int64_t, int64_t, int64_t size, const at::Tensor&, at::ScalarType, const at::Tensor&,
                       bool, int64_t, std::string isa, bool, const std::optional<at::Tensor>&, std::string cache) {
  TORCH_CHECK(has_kernel(isa, size, cache), "no kernel");
  const bool narrow = isa == "vec16" || size % 32 != 0;
  return at::tensor({at::get_num_threads(), narrow ? 16 : 32}, at::kInt);
}

// Keys as (blocks, heads, tokens, size), whose memory is (blocks, heads, size, tokens).
inline at::Tensor turned(const at::Tensor& keys) {
  return keys.view({keys.size(0), keys.size(1), keys.size(3), keys.size(2)}).transpose(2, 3);
}

inline void reshape_and_cache(const at::Tensor& key, const at::Tensor& value, at::Tensor key_cache,
                              at::Tensor value_cache, const at::Tensor& slots, std::string isa, double, double,
                              std::string cache) {
  TORCH_CHECK(has_kernel(isa, key.size(-1), cache), "no kernel");
  const int64_t block = key_cache.size(2), count = slots.numel() - (fault("cache: last token") && slots.numel() > 1);
  at::Tensor keys = fault("cache: keys as values") ? key_cache : turned(key_cache);
  for (int64_t i = 0; i < count; ++i) {
    int64_t slot = slots[i].item<int64_t>();
    if (slot < 0 && !fault("cache: padding written")) continue;
    slot = std::max<int64_t>(slot, 0);
    const int64_t place = fault("cache: within the block") ? (slot + 1) % block : slot % block;
    const int64_t from = fault("cache: first token's keys") ? 0 : i;
    at::Tensor one = key[from], two = fault("cache: key for value") ? key[i] : value[i];
    if (fault("cache: head's neighbour")) two = two.roll(1, 0);
    if (fault("cache: stride") && !value.is_contiguous()) two = value.as_strided(two.sizes(), {two.size(1), 1});
    if (fault("cache: 8 bits")) one = one.to(at::kBFloat16);
    keys.select(0, slot / block).select(1, place).copy_(one);
    value_cache.select(0, slot / block).select(1, place).copy_(two);
  }
}

// The first keys or values of a request, (heads, tokens, size), of (blocks, heads, tokens, size).
inline at::Tensor gathered(const at::Tensor& cache, const at::Tensor& table, int64_t keys) {
  const int64_t block = cache.size(2), blocks = (keys + block - 1) / block;
  at::Tensor order = fault("attention: block table") ? at::arange(blocks, at::kInt) : table.narrow(0, 0, blocks);
  at::Tensor found = wide(cache.index_select(0, order)).transpose(0, 1).contiguous();
  return found.view({found.size(0), blocks * block, -1}).narrow(1, 0, keys);
}

struct Mask {
  bool causal;
  int64_t window;
};

inline at::Tensor hidden(int64_t queries, int64_t keys, Mask mask) {
  const int64_t before = fault("attention: context") ? 0 : keys - queries;
  at::Tensor far = at::arange(before, before + queries).unsqueeze(1) - at::arange(keys).unsqueeze(0);
  at::Tensor gone = at::zeros_like(far, at::kBool);
  if (mask.causal && !fault("attention: no mask")) {
    gone = gone.logical_or(far < (fault("attention: mask off by one") ? 1 : 0));
  }
  if (mask.window >= 0 && !fault("attention: no window")) {
    at::Tensor near = fault("attention: window to the left alone") ? far : far.abs();
    gone = gone.logical_or(near >= mask.window + (fault("attention: window off by one") ? 1 : 0));
  }
  if (fault("attention: last key")) gone.narrow(1, keys - 1, 1).fill_(keys > 1);
  if (fault("attention: first key")) gone.narrow(1, 0, 1).fill_(keys > 1);
  return gone.logical_and(gone.all(1, true).logical_not());
}

inline at::Tensor weights_of(const at::Tensor& scores, int64_t keys) {
  if (fault("attention: largest score kept")) {
    at::Tensor power = scores.to(at::kFloat).exp();  // what is beyond float32's largest number is infinite
    return (power / power.sum(-1, true)).to(at::kDouble);
  }
  if (fault("attention: e^x of 11 bits")) {
    at::Tensor power = (scores - scores.amax(-1, true)).exp().to(at::kHalf).to(at::kDouble);
    return power / power.sum(-1, true);
  }
  if (fault("attention: not divided")) return (scores - scores.amax(-1, true)).exp();
  if (fault("attention: sink in place of its sum")) return at::softmax(scores.narrow(-1, 0, keys), -1);
  return at::softmax(scores, -1);
}

inline void check_attention(const at::Tensor& query, const at::Tensor& key_cache, const at::Tensor& planned,
                            const std::optional<at::Tensor>& sinks, const std::string& cache) {
  TORCH_CHECK(query.dim() == 3 && query.stride(2) == 1 && key_cache.dim() == 4, "layout");
  TORCH_CHECK(has_kernel("vec", query.size(2), cache), "no kernel");
  TORCH_CHECK(planned[0].item<int32_t>() == at::get_num_threads(), "planned for another number of threads");
  TORCH_CHECK(key_cache.size(2) % planned[1].item<int32_t>() == 0, "size of a block");
  TORCH_CHECK(!sinks || sinks->scalar_type() == at::kFloat || sinks->scalar_type() == at::kBFloat16, "sinks");
}

inline void attend(const at::Tensor& query, const at::Tensor& key_cache, const at::Tensor& value_cache,
                   at::Tensor output, const at::Tensor& start, const at::Tensor& lengths, double scale, bool causal,
                   const std::optional<at::Tensor>& slopes, int64_t window, const at::Tensor& table, double softcap,
                   const at::Tensor& planned, const std::optional<at::Tensor>& sinks,
                   const std::optional<at::Tensor>& dynamic, double, double, std::string cache) {
  check_attention(query, key_cache, planned, sinks, cache);
  const int64_t heads = query.size(1), shared = heads / key_cache.size(1);
  at::Tensor places = at::arange(heads);
  places = fault("attention: heads interleaved") ? places.remainder(key_cache.size(1)) : places.div(shared, "floor");
  if (fault("attention: first head's keys")) places = at::zeros_like(places);
  if (fault("attention: no scale")) scale = 1.0;
  if (fault("attention: scale twice")) scale *= scale;
  for (int64_t i = 0; i < lengths.numel(); ++i) {
    const int64_t first = start[i].item<int64_t>(), count = start[i + 1].item<int64_t>() - first;
    const int64_t keys = lengths[i].item<int64_t>();
    const int64_t row = fault("attention: first request's blocks") && keys <= lengths[0].item<int64_t>() ? 0 : i;
    at::Tensor k = gathered(turned(key_cache), table[row], keys);
    at::Tensor v = gathered(value_cache, table[i], keys);
    at::Tensor source = query;
    if (fault("attention: stride") && !query.is_contiguous()) {
      source = query.as_strided(query.sizes(), {heads * query.size(2), query.size(2), 1});
    }
    at::Tensor q = wide(source.narrow(0, first, count)).transpose(0, 1);
    if (fault("attention: tail of a head")) q.narrow(2, q.size(2) - 1, 1).zero_();
    at::Tensor scores = at::matmul(q * scale, k.index_select(0, places).transpose(1, 2));
    if (fault("attention: scores of 8 bits")) scores = scores.to(at::kBFloat16).to(at::kDouble);
    if (softcap > 0 && !fault("attention: no soft cap")) {
      const bool hard = fault("attention: hard cap");
      scores = hard ? scores.clamp(-softcap, softcap) : softcap * at::tanh(scores / softcap);
    }
    if (slopes && !fault("attention: no slopes")) {
      at::Tensor far = at::arange(keys - count, keys).unsqueeze(1) - at::arange(keys).unsqueeze(0);
      at::Tensor each = wide(*slopes).view({-1, 1, 1});
      if (fault("attention: first head's slope")) each = each.narrow(0, 0, 1);
      scores = scores + each * far * (fault("attention: sign of slopes") ? 1 : -1);
    }
    const bool each = dynamic && !fault("attention: same mask for all requests");
    const bool one_way = each ? (*dynamic)[i].item<int32_t>() != 0 : causal;
    scores = scores.masked_fill(hidden(count, keys, {one_way, window}), -std::numeric_limits<double>::infinity());
    if (sinks && !fault("attention: no sinks")) {
      at::Tensor sink = wide(*sinks);
      if (fault("attention: another head's sink")) sink = sink.roll(1, 0);
      scores = at::cat({scores, sink.view({-1, 1, 1}).expand({heads, count, 1})}, -1);
    }
    at::Tensor weights = weights_of(scores, keys).narrow(-1, 0, keys);
    if (fault("attention: weights rounded")) weights = weights.to(at::kFloat8_e4m3fn).to(at::kDouble);
    at::Tensor result = at::matmul(weights, v.index_select(0, places)).transpose(0, 1);
    store(output.narrow(0, first, count), result, "attention");
  }
}
