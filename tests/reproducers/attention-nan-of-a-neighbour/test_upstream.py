# tests/kernels/attention/test_cpu_sgl_attn.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "extend_attention_cpu"):
    pytest.skip("extend_attention_cpu is not in this build", allow_module_level=True)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_extend_nan_stays_in_its_sequence() -> None:
    q, k, v = (torch.randn(37, 1, 32).bfloat16() for _ in range(3))
    v[20] = float("nan")
    out, table = torch.zeros_like(q), torch.zeros(2, 32, dtype=torch.int64)
    lengths, starts = torch.tensor([32, 5]), torch.tensor([0, 32])
    torch.ops._C.extend_attention_cpu(
        q, k, v, out, k, v, table, torch.arange(2), lengths, lengths, starts, 32, 1.0, 0.0,
        False, 0, None, None,
    )  # fmt: skip
    assert out[32:].isfinite().all()


def test_decode_mla_nan_stays_in_its_sequence() -> None:
    q, latents = torch.randn(2, 2, 128).bfloat16(), torch.randn(37, 1, 128).bfloat16()
    latents[31] = float("nan")
    table = torch.stack([torch.arange(32), torch.arange(32) % 5 + 32])
    out = torch.zeros(2, 2, 64, dtype=torch.bfloat16)
    torch.ops._C.decode_attention_cpu(
        q, latents, latents[..., :64], out, None, None, None, torch.zeros(2, 2, 1, 65), table,
        torch.arange(2), torch.tensor([32, 5]), 1.0, 0.0, False, 0, None, None,
    )  # fmt: skip
    assert out[1].isfinite().all()


def test_flash_mla_nan_stays_in_its_token() -> None:
    if not hasattr(torch.ops._C, "flash_mla_with_kvcache_cpu"):
        pytest.skip("flash_mla_with_kvcache_cpu is not in this build")
    cache = torch.zeros(2, 448 + 128 + 8, dtype=torch.uint8)
    cache[:, -8:] = 127
    cache[1, 448:576] = torch.full([64], float("nan")).bfloat16().view(torch.uint8)
    q, out = torch.randn(2, 1, 512).bfloat16(), torch.zeros(2, 1, 512, dtype=torch.bfloat16)
    window, compressed = torch.zeros(2, 5).long(), torch.zeros(2, 32).long()
    compressed[0, -1] = 1
    sink = torch.full([1], float("-inf"))
    torch.ops._C.flash_mla_with_kvcache_cpu(out, q, cache, window, 1, cache, compressed, 1, sink, 1.0)
    assert out[1].isfinite().all()
