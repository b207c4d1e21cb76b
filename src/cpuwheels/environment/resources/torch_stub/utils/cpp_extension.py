"""Which tool kits of other devices there are: none."""

CUDA_HOME = None
ROCM_HOME = None
