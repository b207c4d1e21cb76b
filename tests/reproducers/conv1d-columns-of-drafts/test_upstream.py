# tests/kernels/mamba/cpu/test_cpu_causal_conv1d.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("spare", [0, 1, 3])
def test_conv1d_update_vec_spare_columns(spare: int) -> None:
    ahead = torch.full((2, 4, spare), float("nan"))
    history = torch.tensor([1.0, 2.0, 3.0]).expand(2, 4, 3)
    states = torch.cat([history, ahead], -1)
    weight = torch.tensor([1.0, 10.0, 100.0, 1000.0]).repeat(4, 1)
    out = torch.ops._C.causal_conv1d_update_cpu_vec(torch.full((2, 4), 4.0), states, weight, None, None, None, None, -1)
    assert (out == 4321).all()
    assert torch.equal(states[..., :3], history + 1)
    assert states[..., 3:].isnan().all()


def test_conv1d_update_vec_refuses_query_start_loc() -> None:
    starts = torch.tensor([0, 1, 2], dtype=torch.int32)
    with pytest.raises(RuntimeError):
        torch.ops._C.causal_conv1d_update_cpu_vec(
            torch.ones(2, 4), torch.ones(2, 4, 3), torch.ones(4, 4), None, None, None, starts, -1
        )
