"""The source stage: vLLM, oneDNN and Arm Compute Library, pinned, unpacked and patched."""
