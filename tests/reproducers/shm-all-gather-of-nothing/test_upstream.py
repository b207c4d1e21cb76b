# tests/distributed/test_cpu_shm.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "init_shm_manager"):
    pytest.skip("init_shm_manager is not in this build", allow_module_level=True)


def test_all_gather_of_nothing() -> None:
    handle = torch.ops._C.init_shm_manager("test-nothing", 1, 0, 1)
    torch.ops._C.join_shm_manager(handle, "test-nothing")
    torch.ops._C.shm_all_gather(handle, torch.empty(0), torch.empty(0))
