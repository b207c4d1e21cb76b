// Some of upstream's operators, written plainly, and faults that the environment variable MUTANT plants in them.
// Without it every one is right. Parity has to pass then, and to fail with each fault.

#include <torch/library.h>

#include "attention.h"
#include "rows.h"

TORCH_LIBRARY(_C, m) {
  m.def("silu_and_mul(Tensor! out, Tensor input) -> ()", &silu_and_mul);
  m.def("gelu_quick(Tensor! out, Tensor input) -> ()", &gelu_quick);
  m.def("rms_norm(Tensor! out, Tensor input, Tensor? weight, float epsilon) -> ()", &rms_norm);
  m.def("fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor? weight, float epsilon) -> ()",
        &fused_add_rms_norm);
  m.def("rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, Tensor cos_sin_cache, "
        "bool is_neox, int rope_dim_offset=0, bool inverse=False) -> ()", &rotary_embedding);
  m.def("static_scaled_int8_quant(Tensor! out, Tensor input, Tensor scale, Tensor? azp) -> ()",
        &static_scaled_int8_quant);
  m.def("dynamic_scaled_int8_quant(Tensor! out, Tensor input, Tensor! scale, Tensor!? azp) -> ()",
        &dynamic_scaled_int8_quant);
  m.def("cpu_attn_has_isa(str isa) -> bool", &has_isa);
  m.def("get_scheduler_metadata(int num_req, int num_heads_q, int num_heads_kv, int head_dim, Tensor seq_lens, "
        "ScalarType dtype, Tensor query_start_loc, bool casual, int window_size, str isa_hint, bool enable_kv_split, "
        "Tensor? dynamic_causal, str kv_cache_dtype=\"auto\") -> Tensor", &plan);
  m.def("cpu_attn_reshape_and_cache(Tensor key, Tensor value, Tensor(a2!) key_cache, Tensor(a3!) value_cache, "
        "Tensor slot_mapping, str isa, float k_scale=1.0, float v_scale=1.0, str kv_cache_dtype=\"auto\") -> ()",
        &reshape_and_cache);
  m.def("cpu_attention_with_kv_cache(Tensor query, Tensor key_cache, Tensor value_cache, Tensor(a3!) output, "
        "Tensor query_start_loc, Tensor seq_lens, float scale, bool causal, Tensor? alibi_slopes, "
        "SymInt sliding_window_size, Tensor block_table, float softcap, Tensor scheduler_metadata, Tensor? s_aux, "
        "Tensor? dynamic_causal, float k_scale=1.0, float v_scale=1.0, str kv_cache_dtype=\"auto\") -> ()", &attend);
}
