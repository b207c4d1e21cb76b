# tests/v1/sample/test_cpu_rejection_sampler.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_draft_without_probability_is_rejected() -> None:
    out = torch.full((1, 2), -1)
    torch.ops._C.rejection_random_sample_kernel_impl(
        out, torch.tensor([1]), torch.tensor([0]), torch.tensor([[0.0, 1.0]]),
        torch.tensor([[0.5, 0.5]]), torch.tensor([[7]]), torch.tensor([3]),
        torch.tensor([0.0]), None, 1, 2, False,
    )  # fmt: skip
    assert out.tolist() == [[3, -1]]
